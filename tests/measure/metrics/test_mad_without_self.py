"""MAD without self from the two sums that every pass has, and directly where they lose digits."""

import pytest
import torch
from measure import toy_models
from torch import nn

from nearsight.measure.catalogue import DEFAULT_METRICS
from nearsight.measure.metrics import mad_without_self, patch_attention
from nearsight.measure.profile import measure_model, recorder
from nearsight.measure.rows import capture_attention
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model

GRID = Grid(3, 5)


def looking_at_itself(strength: float) -> nn.Module:
    """A model whose heads look at their own patch the more, the larger the strength is."""
    torch.manual_seed(5)
    model = create_model("mu", 7, image_size=(12, 20), patch_size=4).eval()
    for block in model.blocks:
        width = block.attn.qkv.weight.shape[1]
        with torch.no_grad():
            block.attn.qkv.weight[:width] = strength * torch.eye(width)
            block.attn.qkv.weight[width : 2 * width] = torch.eye(width)
    return model


def expected(model: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    return [mad_without_self(patch_attention(x.double(), 1), GRID) for x in maps]


@pytest.fixture
def asked(monkeypatch) -> list[slice]:
    """The heads whose rows were asked for, call by call; all of them where there is no kernel."""
    found: list[slice] = []
    real = recorder.attention_rows

    def noted(*args, heads=slice(None), **options):
        found.append(heads)
        return real(*args, heads=heads, **options)

    monkeypatch.setattr(recorder, "attention_rows", noted)
    return found


def test_it_is_a_default_metric_made_of_two_sums(asked):
    assert "mad_without_self" in DEFAULT_METRICS
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20))
    assert all(heads == slice(None) for heads in asked)
    for mad, own, without in zip(
        profile.mad.values, profile.self_mass.values, profile.mad_without_self.values
    ):
        assert without == pytest.approx(mad / (1 - own), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.6, 3.0, 30.0])
def test_it_keeps_its_digits_however_little_leaves_a_patch(strength):
    model, images = looking_at_itself(strength), toy_models.images(12, 20)
    profile = measure_model(model, images)
    for layer, values in enumerate(expected(model, images)):
        found = torch.from_numpy(profile.mad_without_self.values[layer])
        torch.testing.assert_close(found, values, rtol=2e-4, atol=1e-12)


@pytest.mark.slow
def test_the_direct_sum_is_taken_for_the_heads_that_need_it_and_no_other(asked):
    model, images = looking_at_itself(30.0), toy_models.images(12, 20)
    width = model.blocks[0].attn.qkv.weight.shape[1]
    with torch.no_grad():  # the first head of the first layer looks everywhere
        model.blocks[0].attn.qkv.weight[: width // 2] = 0
    profile = measure_model(model, images)
    assert profile.self_mass.mean[0][0] < 0.1
    assert profile.self_mass.mean[0][1] > 0.9
    single = [x for x in asked if x != slice(None)]
    assert single == [slice(1, 2), slice(0, 1), slice(1, 2)]
    for layer, values in enumerate(expected(model, images)):
        found = torch.from_numpy(profile.mad_without_self.values[layer])
        torch.testing.assert_close(found, values, rtol=2e-4, atol=1e-12)
