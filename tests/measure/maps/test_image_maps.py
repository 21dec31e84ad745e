"""Maps of one image: the rows that capture sees, put on the image, and what cannot be drawn."""

import numpy as np
import pytest
import torch
from measure.readouts.test_gates import convit
from measure.toy_models import images, plain, pooled, windows
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.layout.tokens import row_by_row
from nearsight.measure.maps.image_maps import (
    LayerAttention,
    attention_maps,
    chosen_maps,
    layer_attention,
)
from nearsight.measure.metrics.features import num_class_tokens
from nearsight.models.layers.grid import Grid


def test_uniform_attention_is_one_everywhere_and_prefix_tokens_take_their_share():
    model = plain()  # 3x5 patches, a class token and a register
    for block in model.blocks:
        nn.init.zeros_(block.attn.qkv.weight)
    maps = attention_maps(model, images(12, 20)[0], [(2, 1)])
    for found in (maps.of_class, *maps.of_patches):
        np.testing.assert_allclose(found.times_uniform, np.ones((3, 5)), rtol=1e-6)
        assert found.on_patches == pytest.approx(15 / 17)


@pytest.mark.parametrize("head", [None, 0, 1])
def test_maps_are_the_rows_of_the_captured_attention(head):
    model, image = plain(), images(12, 20)[0]
    with torch.no_grad(), ns.capture_attention(model) as captured:
        model(image[None])
    whole = captured[0][0]  # [head, token, token]
    whole = whole.mean(0) if head is None else whole[head]
    maps = attention_maps(model, image, [(0, 4), (2, 1)], layer=0, head=head)
    which = "mean of the heads" if head is None else f"head {head + 1}"
    assert f"layer 1 of 2 (blocks.0.attn), {which}, 1 image, 3x5 patches" in repr(maps)
    assert (maps.layer, maps.num_layers, maps.num_heads) == (0, 2, 2)
    rows = [whole[0], whole[2 + 4], whole[2 + 2 * 5 + 1]]
    for found, row in zip((maps.of_class, *maps.of_patches), rows, strict=True):
        kept = row[2:].double()
        expected = (kept / kept.sum()).reshape(3, 5)
        assert found.on_patches == pytest.approx(float(kept.sum()))
        np.testing.assert_allclose(found.weights, expected, rtol=1e-5, atol=1e-9)
        assert found.times_uniform.mean() == pytest.approx(1)


@pytest.mark.slow
def test_over_several_images_the_mean_attention_is_drawn():
    model, given = plain(), images(12, 20, count=5)
    with torch.no_grad(), ns.capture_attention(model) as captured:
        model(given)
    row = captured[1][:, 1, 2 + 7].double().mean(0)  # head 2, patch in row 2, column 3
    maps = attention_maps(model, given, [(1, 2)], head=1)
    (found,) = maps.of_patches
    assert maps.num_images == 5
    assert found.on_patches == pytest.approx(float(row[2:].sum()))
    np.testing.assert_allclose(found.weights, (row[2:] / row[2:].sum()).reshape(3, 5), rtol=1e-5)
    halves = layer_attention(model, given.split(2)).weights
    np.testing.assert_allclose(halves, layer_attention(model, given).weights, rtol=1e-5)


@pytest.mark.slow
def test_a_head_with_gpsa_tells_its_gate():
    model = convit()
    model.blocks[0].attn.gating_param.data[:] = torch.arange(5.0)
    given = images(16, 16)[0]
    gates = [attention_maps(model, given, layer=0, head=head).share.value for head in range(5)]
    assert gates == pytest.approx(torch.arange(5.0).sigmoid().tolist())
    assert attention_maps(model, given, layer=0).share is None  # the mean of heads has none
    assert attention_maps(model, given, layer=1, head=0).share is None


def test_without_a_layer_the_last_is_taken_and_the_model_is_left_as_it_was():
    model, image = plain().train(), images(12, 20)[0]
    maps = attention_maps(model, image)
    assert maps.layer == 1
    assert maps.patches == ((0, 1), (1, 2), (2, 3))
    named = attention_maps(model, image, layer=1)
    np.testing.assert_array_equal(maps.of_class.weights, named.of_class.weights)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_window_is_drawn_in_its_place_and_nothing_around_it():
    maps = attention_maps(windows(), images(20, 28)[0], [(4, 6), (1, 1)], layer=0)
    assert maps.grid == Grid(5, 7)
    assert maps.of_class is None
    corner, inside = (~np.isnan(x.weights) for x in maps.of_patches)
    expected = np.zeros((5, 7), bool)
    expected[3:5, 6] = True  # the rest of this window of 3x3 is padding
    np.testing.assert_array_equal(corner, expected)
    expected = np.zeros((5, 7), bool)
    expected[:3, :3] = True
    np.testing.assert_array_equal(inside, expected)
    assert maps.of_patches[0].on_patches < 1
    assert maps.of_patches[1].on_patches == pytest.approx(1)
    assert np.nansum(maps.of_patches[0].weights) == pytest.approx(1)


def test_pooled_keys_give_a_coarser_map():
    model, image = pooled(), images(24, 40)[0]
    with torch.no_grad(), ns.capture_attention(model) as captured:
        model(image[None])
    maps = attention_maps(model, image, [(5, 9)], layer=0)
    assert maps.grid == Grid(6, 10)
    row = captured[0][0].mean(0)[59].reshape(3, 5)
    np.testing.assert_allclose(maps.of_patches[0].weights, row, rtol=1e-5)


@pytest.mark.parametrize(("shape", "number"), [((1, 6, 4), 6), ((1, 1, 4), 1), ((4,), 1)])
def test_class_tokens_are_counted_in_their_parameter(shape, number):
    model = nn.Module()
    assert num_class_tokens(model) == 0
    model.inner = nn.Module()
    model.inner.cls_token = nn.Parameter(torch.zeros(shape))
    assert num_class_tokens(model) == number


def test_several_class_tokens_are_drawn_as_their_mean():
    layout = row_by_row(Grid(1, 2), num_prefix=3)
    weights = torch.tensor(
        [[[0.2, 0.2, 0.2, 0.3, 0.1], [0.2, 0.2, 0.5, 0.1, 0.0], *[[0.2] * 5] * 3]]
    )
    maps = chosen_maps(LayerAttention(0, 1, "attn", layout, weights, num_class=2), [(0, 0)])
    np.testing.assert_allclose(maps.of_class.weights, [[0.8, 0.2]], rtol=1e-6)
    assert maps.of_class.on_patches == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"patches": [(3, 0)]}, r"\brow 4, column 1\b.*\brows 1 to 3 and columns 1 to 5\b"),
        ({"patches": [(0, -1)]}, r"row 1, column 0"),
        ({"layer": 2}, r"\blayer 3\b.*\blayers 1 to 2\b"),
        ({"head": 2}, r"\bhead 3\b.*\bblocks\.1\.attn\b.*\bheads 1 to 2\b"),
    ],
)
def test_what_is_not_there_is_said(options, sentence):
    with pytest.raises(UserError, match=sentence):
        attention_maps(plain(), images(12, 20)[0], **options)


def test_a_model_without_attention_is_refused():
    with pytest.raises(UserError, match=r"^Conv2d "):
        attention_maps(nn.Conv2d(3, 5, 2), images(12, 20)[0])
