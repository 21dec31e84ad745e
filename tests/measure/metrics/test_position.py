"""The share of attention that does not depend on the image."""

import pytest
import torch
from measure import reference_metrics as slow
from measure import toy_models

from nearsight.core import UserError
from nearsight.measure.metrics import position
from nearsight.measure.metrics.position import position_share
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows.captured import capture_attention


def random_maps(images, heads, patches, sharpness=3.0):
    torch.manual_seed(13)
    logits = torch.randn(images, heads, patches, patches, dtype=torch.float64)
    return (sharpness * logits).softmax(-1)


def test_the_share_equals_loops_over_all_pairs_of_images():
    maps = random_maps(5, 2, 7)
    for head in range(2):
        expected = slow.position_share([maps[image, head].tolist() for image in range(5)])
        assert position_share(maps)[head].item() == pytest.approx(expected, abs=1e-12)


def test_equal_maps_share_everything_and_disjoint_ones_nothing():
    fixed = random_maps(1, 1, 7).expand(3, 1, 7, 7)
    disjoint = torch.stack([torch.eye(7).roll(step, 0) for step in range(3)])[:, None]
    assert position_share(fixed).item() == pytest.approx(1, abs=1e-12)
    assert position_share(disjoint).item() == pytest.approx(0, abs=1e-12)


def test_a_map_that_is_fixed_half_of_the_time_is_solved_by_hand():
    # images 1, 1, 2, 2 of two disjoint maps: 4 of 12 ordered pairs agree
    one, other = torch.eye(5), torch.eye(5).roll(1, 0)
    maps = torch.stack([one, one, other, other])[:, None]
    assert position_share(maps).item() == pytest.approx(4 / 12, abs=1e-12)


def test_one_image_has_nothing_to_compare_with():
    with pytest.raises(UserError, match=r"\bposition_share\b.*\b2\b.*\b1$"):
        position_share(random_maps(1, 1, 5))
    with pytest.raises(UserError, match=r"\bposition_share\b.*\b2\b.*\b1$"):
        measure_model(toy_models.plain(), toy_models.images(12, 20, count=1), metrics="all")


@pytest.mark.slow
def test_above_the_limit_mean_offsets_stand_for_the_map(monkeypatch):
    monkeypatch.setattr(position, "MAX_PATCHES", 14)
    model, images = toy_models.plain(), toy_models.images(12, 20)
    found = measure_model(model, images, metrics=("position_share", "mad")).position_share
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    places = torch.tensor(slow.places(3, 5)).double()
    for layer, tokens in enumerate(maps):
        rows = tokens[..., 2:, 2:].double()
        looked_at = rows / rows.sum(-1, keepdim=True) @ places  # [image, head, query, 2]
        beyond = looked_at - places.mean(0)
        for head in range(2):
            expected = slow.position_share([beyond[i, head].tolist() for i in range(7)])
            assert found[layer][head] == pytest.approx(max(0, expected), abs=1e-5)


@pytest.mark.slow
def test_windows_above_the_limit_agree_with_windows_below(monkeypatch):
    """A head that looks at one fixed place of its window is positional either way."""
    model, images = toy_models.windows(), toy_models.images(20, 28)
    for block in model.layers[0].blocks:
        torch.nn.init.zeros_(block.attn.qkv.weight)
        torch.nn.init.zeros_(block.attn.qkv.bias)
        torch.nn.init.normal_(block.attn.relative_position_bias_table, std=3.0)
    metrics = ("position_share", "mad")
    below = measure_model(model, images, metrics=metrics).position_share
    monkeypatch.setattr(position, "MAX_PATCHES", 34)
    above = measure_model(model, images, metrics=metrics).position_share
    for one, other in zip(below, above, strict=True):
        assert one == pytest.approx(1, abs=1e-5)
        assert other == pytest.approx(1, abs=1e-5)
