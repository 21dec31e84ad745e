"""Metrics summed block by block equal their definitions on whole captured maps."""

import math

import pytest
import torch
from measure import reference_metrics as slow
from measure import toy_models

from nearsight.core import UserError
from nearsight.measure.catalogue import CATALOGUE, METRIC_NAMES
from nearsight.measure.metrics import (
    RowMetric,
    attention_entropy,
    mathematics,
    metric_of_attention,
    patch_attention,
    sink_mass,
)
from nearsight.measure.metrics.position import position_share
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows import unfold
from nearsight.measure.rows.captured import capture_attention
from nearsight.models.layers.grid import Grid

CASES = {  # model, image size, grid, prefix tokens, keys that a query sees
    "plain": (toy_models.plain, (12, 20), Grid(3, 5), 2, 15),
    "windows": (toy_models.windows, (20, 28), Grid(5, 7), 0, 9),
}
ON_THE_IMAGE = (  # distances in the whole image, though keys outside a window get nothing
    "mad", "self_mass", "radius_mass", "nonlocality", "score", "mad_without_self", "ring_mass",
    "sink", "offset", "offset_spread", "nmi", "head_diversity",
)  # fmt: skip


def captured(model, images):
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    return [x.double() for x in maps]


def definitions(tokens, grid, num_prefix, num_keys):
    """Every metric of rows by its pure function; where windows leave out keys, as they count."""
    patches = patch_attention(tokens, num_prefix)
    on_padding = (1 - tokens.sum(-1)).mean(-1)  # windows: what is not on the map
    found = {
        metric.name: metric_of_attention(metric, patches, grid)
        for metric in CATALOGUE
        if isinstance(mathematics(metric), RowMetric) and metric.name != "sink"
    }
    found["sink"] = sink_mass(tokens, num_prefix) if num_prefix else on_padding
    if num_keys < grid.num_patches:
        found = {name: found[name] for name in ON_THE_IMAGE}
        seen = math.log(grid.num_patches) / math.log(num_keys)
        found["entropy"] = attention_entropy(patches) * seen
    return found


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [2**19, 101])
@pytest.mark.parametrize("case", CASES)
def test_every_metric_of_a_profile_is_what_its_definition_says(case, block_size, monkeypatch):
    make, size, grid, num_prefix, num_keys = CASES[case]
    monkeypatch.setitem(unfold.BLOCK_SIZES, "cpu", block_size)
    model, images = make(), toy_models.images(*size)
    profile = measure_model(model, images.split(5), metrics="all")
    assert set(profile.metrics) == set(METRIC_NAMES) - {"position_share"}
    for layer, tokens in enumerate(captured(model, images)):
        expected = definitions(tokens, grid, num_prefix, num_keys)
        for name, values in expected.items():
            found = torch.from_numpy(profile.metrics[name].values[layer])
            assert found.shape == values.shape
            assert torch.allclose(found, values, atol=2e-6), f"{name}, layer {layer}"
        share = torch.from_numpy(profile.position_share[layer])
        patches = patch_attention(tokens, num_prefix)
        assert torch.allclose(share, position_share(patches), atol=1e-5)


@pytest.mark.slow
def test_metrics_of_pooled_keys_equal_plain_loops():
    model, images = toy_models.pooled(), toy_models.images(24, 40, count=3)
    profile = measure_model(model, images, metrics="all")
    queries = slow.places(6, 10)
    keys = [(2 * row + 0.5, 2 * col + 0.5) for row, col in slow.places(3, 5)]
    heads = captured(model, images)[0]
    for image in range(3):
        layer = [heads[image, head].tolist() for head in range(2)]
        assert profile.head_diversity.values[0][image] == pytest.approx(
            slow.diversity(layer), abs=1e-6
        )
        for head, rows in enumerate(layer):
            given = rows, queries, keys
            far = slow.distance(*given)
            expected = {
                "nonlocality": far,
                "mad": far / math.hypot(5, 9),
                "score": 1 - far / slow.uniform_distance(queries, keys),
                "mad_without_self": slow.distance_without_self(*given) / math.hypot(5, 9),
                "self_mass": slow.own_mass(*given),
                "ring_mass": slow.ring_masses(*given, 10),
                "radius_mass": slow.radius_masses(*given),
                "offset": slow.offset(*given),
                "offset_spread": slow.spread(*given),
                "nmi": slow.information(rows),
                "sink": 0.0,
            }
            for name, value in expected.items():
                found = profile.metrics[name].values[0][image, head]
                assert found.tolist() == pytest.approx(value, abs=2e-6), name


@pytest.mark.slow
def test_the_order_of_images_is_that_of_the_numbers():
    model, images = toy_models.plain(), toy_models.images(12, 20)
    forward = measure_model(model, images, metrics="all")
    backward = measure_model(model, images.flip(0), metrics="all")
    for name, estimates in forward.metrics.items():
        for one, other in zip(estimates.values, backward.metrics[name].values, strict=True):
            assert one == pytest.approx(other[::-1], abs=2e-6), name


@pytest.mark.slow
def test_a_layer_metric_has_one_interval_per_layer():
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20), metrics="all")
    values = profile.head_diversity.values[1]
    half = 2.446911851144969 * values.std(ddof=1) / math.sqrt(7)  # t with 6 degrees of freedom
    assert profile.head_diversity.low[1] == pytest.approx(values.mean() - half, abs=1e-12)
    assert profile.ring_mass.high[0].shape == (2, 5)


@pytest.mark.slow
def test_default_metrics_are_not_changed_by_asking_for_all():
    model, images = toy_models.plain(), toy_models.images(12, 20)
    some, every = (measure_model(model, images, metrics=x) for x in (("mad", "nmi"), "all"))
    assert list(some.metrics) == ["mad", "nmi"]
    for name in some.metrics:
        for one, other in zip(some.metrics[name].values, every.metrics[name].values, strict=True):
            assert one == pytest.approx(other, abs=1e-6)


def test_a_metric_that_was_not_measured_says_how_to_ask_for_it():
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20))
    with pytest.raises(AttributeError, match=r"\bnmi\b.*metrics=\(..., 'nmi'\)"):
        _ = profile.nmi
    with pytest.raises(UserError, match=r"'madd'.*\bmad, entropy, .*\bmean mad\b"):
        measure_model(toy_models.plain(), toy_models.images(12, 20), metrics=("madd",))
