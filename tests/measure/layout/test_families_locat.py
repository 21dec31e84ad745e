"""LocAt's layers made positional: queries are zero, so that biases alone give every Gaussian.

All patches then have the same variance and strength, and who looks how far is worked out by loops.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from measure.layout.families_locat import TOY
from measure.layout.test_families_closed_form import SHIFT, WINDOW, layer_means, quiet, tiles

from nearsight.models.load.registry import create_model
from nearsight.models.parts.locat.locat import add_locat

RAW = (0.7, -1.3), 1.9  # biases: of the variance by row and by column, and of the strength
EPS = 0.1


def gaussian_mad(rows, cols, kernel, group=None):
    """MAD of weights exp(strength * kernel(offset)) between patches that see each other."""
    strength = math.log1p(math.exp(RAW[1]))
    patches = list(itertools.product(range(rows), range(cols)))
    total = 0.0
    for query in patches:
        seen = [key for key in patches if not group or group(*key)[0] == group(*query)[0]]
        offsets = [(key[0] - query[0], key[1] - query[1]) for key in seen]
        weights = [math.exp(strength * kernel(*offset)) for offset in offsets]
        total += np.average([math.hypot(*offset) for offset in offsets], weights=weights)
    return total / len(patches) / math.hypot(rows - 1, cols - 1)


def variances(largest, growth=1.0):
    """Of both axes, in (0, largest), 1 where the bias is 0; growth: the rule for other sizes."""
    return [growth * largest / (1 + math.exp(-x) * (largest - 1)) for x in RAW[0]]


def gaussian(largest, growth=1.0):
    def kernel(down, right):
        row, col = variances(largest, growth)
        return math.exp(-0.5 * (down**2 / (row + EPS) + right**2 / (col + EPS)))

    return kernel


def positional(model):
    """Queries and keys are zero, whatever the images."""
    for module in model.modules():
        if (gaug := getattr(module, "gaug", None)) is not None:
            quiet(module.qkv)
            with torch.no_grad():
                gaug.log_var.bias.copy_(torch.tensor(RAW[0])[: len(gaug.log_var.bias)])
                gaug.log_alpha.bias.fill_(RAW[1])
    return model


@pytest.mark.slow
@pytest.mark.parametrize("registers", [0, 4])
def test_gaussians_of_a_vit_are_measured_on_a_non_square_grid(registers):
    model = create_model("locatvit_tiny", image_size=(48, 80), num_registers=registers, **TOY)
    means = layer_means(positional(model), (48, 80))
    expected = gaussian_mad(3, 5, gaussian(25))
    assert abs(expected - gaussian_mad(3, 5, lambda down, right: 0)) > 0.02
    for found in means:
        assert found == pytest.approx([expected] * 3, abs=1e-6)


@pytest.mark.slow
def test_gaussians_grow_with_the_shorter_side_of_a_larger_image():
    options = TOY | {"dynamic_img_size": True, "gaussian": {"isotropic": True}}
    model = positional(create_model("locatvit_tiny", image_size=(48, 80), **options))

    def kernel(down, right):
        return math.exp(-0.5 * (min(down**2, 16) + min(right**2, 16)) / (row + EPS))

    row, _ = variances(25, growth=7 / 3)
    for found in layer_means(model, (112, 176)):  # 7x11 patches; built for 3x5
        assert found == pytest.approx([gaussian_mad(7, 11, kernel)] * 3, abs=1e-6)


@pytest.mark.slow
def test_the_laplace_kernel_falls_with_the_distance():
    model = create_model(
        "locatvit_tiny", image_size=(48, 80), gaussian={"kernel": "laplace"}, **TOY
    )
    scale = math.sqrt(variances(25)[0])
    expected = gaussian_mad(3, 5, lambda down, right: math.exp(-math.hypot(down, right) / scale))
    for found in layer_means(positional(model), (48, 80)):
        assert found == pytest.approx([expected] * 3, abs=1e-6)


@pytest.mark.slow
def test_gaussians_stay_inside_the_windows_of_swin():
    options = {"depths": (2,), "embed_dim": 12, "num_heads": (2,), "window_size": WINDOW}
    model = create_model("swin_tiny_patch4_window7_224", 5, image_size=(36, 80), **options)
    for block in model.layers[0].blocks:
        torch.nn.init.zeros_(block.attn.relative_position_bias_table)
    plain, shifted = layer_means(positional(add_locat(model)), (36, 80))  # 9x20 patches
    for found, group in ((plain, tiles()), (shifted, tiles(shift=SHIFT))):
        expected = gaussian_mad(9, 20, gaussian(25), group)
        assert found == pytest.approx([expected] * 2, abs=1e-6)
