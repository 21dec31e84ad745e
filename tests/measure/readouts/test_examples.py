"""Attention stored in one byte per weight: precise as promised, and the same after reading."""

import gzip
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from measure import toy_models

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.readouts.example_capture import (
    capture_examples,
    part_colours,
    prefix_names,
    principal_parts,
)
from nearsight.models.layers.grid import Grid
from nearsight.runs.companding import compand, differences, expand, from_differences
from nearsight.runs.examples import (
    EXAMPLES,
    LIKENESS_STEPS,
    Examples,
    LayerPlaces,
    read_examples_contents,
)
from nearsight.runs.records import EXAMPLES_FILE

GRID = Grid(5, 7)


def places(grid=GRID, prefix=2, heads=3):
    rows, cols = tuple(map(float, range(grid.rows))), tuple(map(float, range(grid.cols)))
    return LayerPlaces(
        "a", grid.rows, grid.cols, heads, prefix, prefix, rows, cols, grid.num_patches, prefix
    )


def made_rows(sharpness, seed=0, grid=GRID, heads=3):
    """Softmax rows between patches, the sharper the larger the logits."""
    logits = np.random.default_rng(seed).normal(size=(heads, grid.num_patches, grid.num_patches))
    weights = np.exp(sharpness * (logits - logits.max(-1, keepdims=True)))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def seen(model, image):
    pixels = [np.zeros((8, 8, 3), np.uint8)]
    return capture_examples(model, image, pixels, ["one"])


@given(sharpness=st.floats(0.01, 40), seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_weight_is_off_by_more_than_a_255th_of_its_rows_maximum(sharpness, seed):
    weights, numbers = made_rows(sharpness, seed), places(prefix=0).scale_numbers
    shown = expand(*compand(weights, numbers), numbers)
    error = np.abs(shown - weights) / weights.max(-1, keepdims=True)
    assert error.max() <= 1 / 255


def test_the_bound_on_the_error_is_tight():
    weights = np.array([[1.0, (254.5 / 255) ** 2]])
    numbers = np.full((1, 2), 2, np.uint8)
    shown = expand(*compand(weights, numbers), numbers)
    assert 0.99 / 255 < np.abs(shown - weights).max() <= 1 / 255


def test_codes_are_those_of_plain_loops():
    at = places(prefix=0)
    weights = made_rows(3.0)
    codes, scales = compand(weights, at.scale_numbers)
    for head, query, key in np.ndindex(*weights.shape):
        row, col = divmod(query, 7)
        row_weights = weights[head, query]
        rings = [max(abs(place // 7 - row), abs(place % 7 - col)) for place in range(35)]
        number = 0 if rings[key] <= 1 else 1 if rings[key] <= 3 else 2
        kept = [range(2), range(2, 4), range(35)][number]
        alike = [weight for weight, ring in zip(row_weights, rings) if ring in kept]
        scale = max(alike)
        shown = 2 ** (-int(scales[head, query, number]) / 1024)
        assert scale <= shown * (1 + 1e-7) <= scale * 1.0007
        exact = 255 * np.sqrt(np.float64(weights[head, query, key]) / shown)
        assert abs(codes[head, query, key] - exact) <= 0.5 + 1e-4


def test_a_row_of_zeros_stays_zero():
    numbers = np.array([[0, 2]], np.uint8)
    assert expand(*compand(np.zeros((1, 2)), numbers), numbers).tolist() == [[0.0, 0.0]]


@given(seed=st.integers(0, 10_000), cols=st.sampled_from([1, 5, 7, 35]))
@settings(max_examples=30, deadline=None)
def test_differences_lead_back_to_the_codes(seed, cols):
    codes = np.random.default_rng(seed).integers(0, 256, (2, 35, 11)).astype(np.uint8)
    assert np.array_equal(from_differences(differences(codes, cols), cols), codes)


def localised(patches, grid, width):
    """MAD and entropy per head of rows to which a Gaussian is added, by the definition."""
    bias = -(grid.distances("patches") ** 2) / (2 * width**2)
    changed = patches.double() * bias.exp()
    changed = changed / changed.sum(-1, keepdim=True)
    return torch.stack([ns.mean_attention_distance(changed, grid), ns.attention_entropy(changed)])


@pytest.mark.parametrize("width", [0.5, 0.75, 1.0, 2.0, 5.0, 100.0])
@pytest.mark.parametrize("sharpness", [0.5, 3.0, 6.0])
def test_metrics_under_a_gaussian_survive_companding(width, sharpness):
    """Sharp rows look far away, so that what is near is small, and large under a Gaussian."""
    rows, at = made_rows(sharpness, heads=11), places(prefix=0)
    shown = expand(*compand(rows, at.scale_numbers), at.scale_numbers)
    exact = localised(torch.from_numpy(rows)[None], GRID, width)
    assert (localised(torch.from_numpy(shown)[None], GRID, width) - exact).abs().max() < 0.002


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "windows", "pooled"])
def test_captured_rows_are_those_of_capture_attention(kind):
    model = getattr(toy_models, kind)()
    size = {"plain": (12, 20), "windows": (20, 28), "pooled": (24, 40)}[kind]
    images = toy_models.images(*size, count=3)
    with torch.no_grad(), ns.capture_attention(model) as maps:
        model(images)
    found = capture_examples(model, images, [np.zeros((8, 8, 3), np.uint8)] * 3, "abc")
    assert len(found.layers) == len(maps)
    for number, image in enumerate(found.images):
        for layer, at, expected in zip(image.layers, found.layers, maps):
            weights, exact = layer.weights(at), expected[number].numpy()
            assert np.all(np.abs(weights - exact) <= exact.max(-1, keepdims=True) / 255)
            prefix = slice(0, at.key_prefix)
            assert np.allclose(weights[..., prefix], exact[..., prefix], rtol=1e-3, atol=1e-18)


def test_prefix_tokens_have_their_names_and_rows():
    found = seen(toy_models.plain(), toy_models.images(12, 20, count=1))
    assert found.prefix_names == ("[CLS]", "register 1")
    assert {(x.query_prefix, x.key_prefix, x.feature_prefix) for x in found.layers} == {(2, 2, 2)}
    assert prefix_names(torch.nn.Linear(2, 3), 2) == ("register 1", "register 2")


def test_windows_see_as_many_keys_as_a_window_has_and_pooled_keys_lie_between_patches():
    swin = seen(toy_models.windows(), toy_models.images(20, 28, count=1)).layers
    assert [layer.num_keys for layer in swin] == [9, 9]
    assert [layer.num_cells for layer in swin] == [35, 35]
    first = seen(toy_models.pooled(), toy_models.images(24, 40, count=1)).layers[0]
    assert first.key_rows == (0.5, 2.5, 4.5)
    assert first.key_cols == (0.5, 2.5, 4.5, 6.5, 8.5)


def test_likeness_is_the_cosine_of_the_blocks_output():
    model, images = toy_models.plain(), toy_models.images(12, 20, count=1)
    outputs = []
    handle = model.blocks[1].register_forward_hook(lambda *call: outputs.append(call[2]))
    found = seen(model, images)
    handle.remove()
    tokens = outputs[0][0].detach().double()
    triangle = iter(found.images[0].layers[1].likeness)
    for i in range(len(tokens)):
        for j in range(i + 1):
            cosine = float(tokens[i] @ tokens[j] / tokens[i].norm() / tokens[j].norm())
            shown = 2 * int(next(triangle)) / LIKENESS_STEPS - 1
            assert abs(shown - cosine) <= 1 / LIKENESS_STEPS + 1e-6
    assert next(triangle, None) is None


def test_principal_parts_are_the_eigenvectors_of_the_covariance():
    features = torch.randn(13, 5, generator=torch.Generator().manual_seed(3)).double()
    values, vectors = np.linalg.eigh(np.cov(features.numpy().T))
    centred = features.numpy() - features.numpy().mean(0)
    expected = centred @ vectors[:, np.argsort(-values)[:3]]
    assert np.allclose(np.abs(principal_parts(features)), np.abs(expected))


def test_principal_parts_keep_the_sign_of_the_layer_before():
    features = torch.randn(13, 5, generator=torch.Generator().manual_seed(3)).double()
    parts = principal_parts(features)
    assert np.allclose(principal_parts(-features, before=parts), parts)
    assert np.allclose(principal_parts(features, before=-parts), -parts)
    assert part_colours(parts)[parts[:, 1].argmax(), 1] == 255


def test_examples_are_the_same_after_writing_and_reading(tmp_path):
    found = seen(toy_models.plain(), toy_models.images(12, 20, count=1))
    assert EXAMPLES_FILE.write(tmp_path, found.contents()) == tmp_path / EXAMPLES
    again = Examples.of_contents(read_examples_contents(tmp_path))
    assert again.layers == found.layers
    assert again.prefix_names == found.prefix_names
    (one,), (other,) = found.images, again.images
    assert (one.name, one.source) == (other.name, other.source)
    for layer, same in zip(one.layers, other.layers, strict=True):
        for part in ("prefix", "scales", "codes", "likeness", "colours"):
            assert np.array_equal(getattr(layer, part), getattr(same, part)), part


def test_the_file_is_plain_json_with_gzip_inside(tmp_path):
    import base64

    EXAMPLES_FILE.write(
        tmp_path, seen(toy_models.plain(), toy_models.images(12, 20, count=1)).contents()
    )
    contents = json.loads((tmp_path / EXAMPLES).read_text())
    block = gzip.decompress(base64.b64decode(contents["images"][0]["bytes"]))
    heads, queries, cells, prefix = 2, 17, 15, 2
    per_layer = heads * queries * (2 * (prefix + 3) + cells) + 17 * 18 // 2 + 15 * 3
    assert len(block) == 2 * per_layer
    assert read_examples_contents(tmp_path / "nowhere") is None


def test_a_model_without_attention_is_refused():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 4))
    with pytest.raises(UserError, match=r"\battention\b"):
        seen(model, torch.zeros(1, 3, 8, 8))


def test_too_many_weights_are_refused_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr("nearsight.measure.readouts.example_capture.MAX_WEIGHTS", 500)
    with pytest.raises(UserError, match=r"\bimage size\b"):
        seen(toy_models.plain(), toy_models.images(12, 20, count=1))


def test_the_model_is_left_as_it_was():
    model = toy_models.plain().train()
    seen(model, toy_models.images(12, 20, count=1))
    assert model.training
    assert not model._forward_hooks
