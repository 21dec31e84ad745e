"""ConViT's layers with keys that are all equal: content is spread evenly, position is known.

Then a head's distance is a mean of that of even attention and that of its positions, by its gate.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from measure.layout.families_convit import CASES, TOY
from measure.layout.test_families_closed_form import layer_means

from nearsight.models.load.registry import create_model

WEIGHTS = [(0.7, -1.3, 0.0), (0.2, 0.1, -0.5), (-2.0, 0.0, -1.0), (0.0, 0.3, 0.2)]  # x, y, square
GATES = [-1.3, 0.4, 1.0, 2.1]
BUILDS = {case.family: case.build for case in CASES if case.closed_form}


def positional_mad(rows, cols, x, y, square):
    """MAD of weights exp(x dx + y dy + square (dx^2 + dy^2)), patch by patch."""
    patches = list(itertools.product(range(rows), range(cols)))
    total = 0.0
    for row, col in patches:
        offsets = [(down - row, right - col) for down, right in patches]
        weights = [math.exp(x * dx + y * dy + square * (dx**2 + dy**2)) for dy, dx in offsets]
        total += np.average([math.hypot(*offset) for offset in offsets], weights=weights)
    return total / len(patches) / math.hypot(rows - 1, cols - 1)


def with_positions(model, weights=WEIGHTS, gates=GATES):
    """Keys of the first layer are zero; positions and gates are set."""
    layer = model.blocks[0].attn
    with torch.no_grad():
        layer.qk.weight.zero_()
        layer.pos_proj.weight.copy_(torch.tensor(weights))
        if layer.gating_param is not None:
            layer.gating_param.copy_(torch.tensor(gates))
    return model


@pytest.mark.parametrize("family", BUILDS)
def test_content_and_position_are_measured_in_the_mixture_of_the_gates(family):
    means = layer_means(with_positions(BUILDS[family]()), (48, 80))  # 3x5 patches
    even = positional_mad(3, 5, 0, 0, 0)
    local = [positional_mad(3, 5, *weights) for weights in WEIGHTS]
    if family == "ConViT with PSA":  # equal keys add the same to all scores: position alone
        expected = local
    else:
        shares = [1 / (1 + math.exp(-gate)) for gate in GATES]
        expected = [(1 - g) * even + g * near for g, near in zip(shares, local, strict=True)]
    assert means[0] == pytest.approx(expected, abs=1e-6)
    assert min(abs(a - b) for a, b in itertools.combinations(expected, 2)) > 1e-3


def test_an_open_gate_at_a_large_strength_is_a_convolution_over_two_by_two_patches():
    """Centres are half a patch away in both axes; at an edge a patch finds no neighbour there."""
    model = create_model("convit_tiny", image_size=(48, 80), gpsa={"strength": 400.0}, **TOY)
    layer = model.blocks[0].attn
    torch.nn.init.constant_(layer.gating_param, 99.0)
    inside, along_edge = (0 + 1 + 1 + math.sqrt(2)) / 4, (0 + 1) / 2
    expected = (2 * 4 * inside + (2 + 4) * along_edge) / 15 / math.hypot(2, 4)
    assert layer_means(model, (48, 80))[0] == pytest.approx([expected] * 4, abs=1e-6)
