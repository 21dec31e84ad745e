"""Gates, centres and spans read out of GPSA: hand-solved heads, timm's start, a measured model."""

import json
import math

import pytest
import torch
from measure.toy_models import images, plain
from timm.models.convit import ConVit
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.folders.measure_contents import measurement
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.readouts import gpsa_gates
from nearsight.models.parts.gpsa import LayerGates, layer_gates


def convit(layers=1, **changes):
    """timm's ConViT on 4x4 patches: ``layers`` of its 2 layers have GPSA, 5 heads of width 3."""
    torch.manual_seed(5)
    options = {"embed_dim": 3, "num_heads": 5, "depth": 2, "num_classes": 7, **changes}
    model = ConVit(img_size=16, patch_size=4, local_up_to_layer=layers, **options)
    return model.eval()


def layer(gating, weight):
    made = nn.Module()
    made.gating_param = nn.Parameter(torch.tensor(gating))
    made.pos_proj = nn.Linear(3, len(gating))
    made.pos_proj.weight = nn.Parameter(torch.tensor(weight))
    return made


def test_a_head_that_is_solved_by_hand():
    made = layer([math.log(3)], [[3.0, -1.0, -0.25]])
    found = layer_gates(made)
    assert found.gate == pytest.approx([0.75])
    assert found.span == (4,)
    assert found.centre == ((-2, 6),)  # up by 2, right by 6


def test_the_centre_is_where_the_positional_score_is_largest():
    down, right = torch.meshgrid(torch.arange(-7, 8), torch.arange(-5, 6), indexing="ij")
    places = torch.stack([right, down, right**2 + down**2], -1).float()
    made = layer([0.0, 0.0], [[2.0, -3.0, -0.5], [-6.0, 12.0, -1.5]])
    scores = made.pos_proj(places).flatten(0, 1)
    best = [(int(down.flatten()[i]), int(right.flatten()[i])) for i in scores.argmax(0)]
    assert best == [(-3, 2), (4, -2)]
    assert layer_gates(made).centre == ((-3, 2), (4, -2))
    at = (down == -3).logical_and(right == 3).flatten()  # a patch from the centre of head 1
    drop = float((scores[:, 0].max() - scores[at, 0]).detach())
    assert drop == pytest.approx(1 / layer_gates(made).span[0])


def test_a_head_that_prefers_what_is_far_has_neither_centre_nor_span():
    found = layer_gates(layer([0.0] * 3, [[1.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.0, 0.0, -1.0]]))
    assert found.centre == (None, None, (0, 0))
    assert found.span == (None, None, 1)


def test_a_layer_that_says_it_has_no_gates_has_none():
    made = layer([1.0], [[0.0, 0.0, -2.0]])
    made.gates = lambda: None  # PSA: scores are added before the softmax
    assert layer_gates(made) == LayerGates(None, ((0.0, 0.0),), (0.5,))


@pytest.mark.parametrize(("num_heads", "strength"), [(4, 1.0), (9, 0.5)])
def test_timm_starts_at_the_places_of_a_kernel(num_heads, strength):
    model = convit(2, num_heads=num_heads, locality_strength=strength)
    side = math.isqrt(num_heads)
    expected = {
        (row - (side - 1) / 2, col - (side - 1) / 2) for row in range(side) for col in range(side)
    }
    found = gpsa_gates(model)
    assert list(found) == ["blocks.0.attn", "blocks.1.attn"]
    for gates in found.values():
        assert set(gates.centre) == expected
        assert gates.span == (1 / strength,) * num_heads
        assert gates.gate == pytest.approx([1 / (1 + math.exp(-1))] * num_heads)


def test_measuring_writes_the_gates_of_the_layers_that_have_them():
    model = convit()
    model.blocks[0].attn.gating_param.data[3] = -2.0
    profile = measure_model(model, images(16, 16))
    assert list(profile.readouts["gpsa"]) == [0]
    written = json.loads(json.dumps(measurement(profile)))
    assert written["gpsa"] == {"num_layers": 1}
    found, other = (layer.get("gpsa") for layer in written["layers"])
    assert other is None
    expected = gpsa_gates(model)["blocks.0.attn"]
    assert found["gate"][3] == pytest.approx(1 / (1 + math.exp(2)))
    assert found["gate"] == pytest.approx(expected.gate)
    assert found["centre"][1] == list(expected.centre[1]) == [0.5, -0.5]
    assert found["span"] == list(expected.span)


@pytest.mark.slow
def test_the_nonlocality_of_a_layer_is_that_of_the_gated_rows_in_patches():
    model, given = convit(), images(16, 16)
    with torch.no_grad(), ns.capture_attention(model) as maps:
        model(given)
    summary = measurement(measure_model(model, given))["summary"]["layer_mean_nonlocality"]
    for found, attention, num_prefix in zip(summary, maps, (0, 1), strict=True):
        rows = ns.patch_attention(attention, num_prefix)
        total = 0.0
        for i in range(16):
            for j in range(16):
                far = math.hypot(i // 4 - j // 4, i % 4 - j % 4)
                total += far * float(rows[..., i, j].double().sum())
        assert found["value"] == pytest.approx(total / (16 * 5 * len(given)), abs=1e-6)
        assert found["low"] < found["value"] < found["high"]


def test_a_model_without_gpsa_has_no_such_numbers():
    written = measurement(measure_model(plain(), images(12, 20)))
    assert "gpsa" not in written
    assert not any("gpsa" in layer for layer in written["layers"])
    with pytest.raises(UserError, match=r"VisionTransformer has no .*GPSA.*add_gpsa"):
        ns.gpsa_gates(plain())
