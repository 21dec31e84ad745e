"""Layers made positional: queries and keys are zero, so that only places decide, and MAD is known.

Windows get a bias at one offset. A query then gives weight e^3 to the key at that offset if it may
see it, and 1 to every other key that it may see; who may see whom is stated on the image.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from measure.layout.families_global import create_timm
from measure.layout.families_hierarchical import MAXVIT
from measure.layout.families_table import CASES
from torch import nn

from nearsight.measure.profile.profile import measure_model
from nearsight.models.compat import declare_missing_ops

OFFSET = (1, -2)  # of the favoured key from the query, rows down and columns to the right
PEAK = 3.0
WINDOW = (3, 5)
SHIFT = (1, 2)


def positional_mad(rows, cols, group, offset=OFFSET, peak=PEAK):
    """``group(row, col)``: (who sees whom, place within the window that the bias knows)."""
    patches = list(itertools.product(range(rows), range(cols)))
    seen = {patch: group(*patch) for patch in patches}
    total = 0.0
    for query in patches:
        mass = distance = 0.0
        for key in patches:
            if seen[key][0] != seen[query][0]:
                continue
            apart = tuple(k - q for q, k in zip(seen[query][1], seen[key][1]))
            weight = math.exp(peak) if apart == offset else 1.0
            mass += weight
            distance += weight * math.dist(query, key)
        total += distance / mass
    return total / len(patches) / math.hypot(rows - 1, cols - 1)


def tiles(window=WINDOW, shift=(0, 0)):
    """Windows that lie on the image as they are, cut off at its border."""

    def group(row, col):
        moved = row - shift[0], col - shift[1]
        return tuple(place // side for place, side in zip(moved, window)), moved

    return group


def timm_rolled(rows, cols):
    """timm rolls the unpadded map, then masks strips of the padded one."""

    def along(place, size, side, shift):
        padded = math.ceil(size / side) * side
        at = (place - shift) % size
        strip = (at >= padded - side) + (at >= padded - shift)
        return (at // side, strip), at

    def group(row, col):
        down, y = along(row, rows, WINDOW[0], SHIFT[0])
        right, x = along(col, cols, WINDOW[1], SHIFT[1])
        return (down, right), (y, x)

    return group


def lattice(rows, cols, size):
    """Patches a fixed number of rows and columns apart; the bias counts those steps."""

    def group(row, col):
        down, right = rows // size[0], cols // size[1]
        return (row % down, col % right), (row // down, col // right)

    return group


def quiet(qkv):
    """Queries and keys are zero."""
    width = qkv.weight.shape[0] // 3
    with torch.no_grad():
        qkv.weight[: 2 * width] = 0
        if qkv.bias is not None:
            qkv.bias[: 2 * width] = 0


def bias_at(window, offset=OFFSET):
    """Index in Swin's table of the offset, which it counts from key to query."""
    return (window[0] - 1 - offset[0]) * (2 * window[1] - 1) + window[1] - 1 - offset[1]


def favoured(table, window=WINDOW):
    with torch.no_grad():
        table.zero_()
        table[bias_at(window)] = PEAK


def one_stage(name, size):
    """A layer with windows and a layer with shifted windows."""
    options = {"depths": (2,), "embed_dim": 12, "num_heads": (2,), "num_classes": 5}
    return create_timm(name, img_size=size, window_size=WINDOW, **options)


def layer_means(model, size):
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(2, 3, *size, generator=generator)
    return measure_model(model, images, metrics=("mad",)).mad.mean


@pytest.mark.parametrize("fused", [False, True])
def test_timm_swin_puts_shifted_windows_back_on_a_non_square_grid(fused):
    model = one_stage("swin_tiny_patch4_window7_224", (36, 80))  # 9x20 patches: 3x4 windows
    for block in model.layers[0].blocks:
        quiet(block.attn.qkv)
        favoured(block.attn.relative_position_bias_table)
        block.attn.fused_attn = fused
    plain, shifted = layer_means(model, (36, 80))
    assert plain == pytest.approx([positional_mad(9, 20, tiles())] * 2, abs=1e-6)
    assert shifted == pytest.approx([positional_mad(9, 20, tiles(shift=SHIFT))] * 2, abs=1e-6)
    assert abs(shifted[0] - plain[0]) > 1e-3


def test_timm_swin_drops_the_padding_and_keeps_what_wraps_around():
    model = one_stage("swin_tiny_patch4_window7_224", (44, 76))  # 11x19 patches: padded to 12x20
    for block in model.layers[0].blocks:
        quiet(block.attn.qkv)
        favoured(block.attn.relative_position_bias_table)
    plain, shifted = layer_means(model, (44, 76))
    assert plain == pytest.approx([positional_mad(11, 19, tiles())] * 2, abs=1e-6)
    expected = positional_mad(11, 19, timm_rolled(11, 19))
    assert shifted == pytest.approx([expected] * 2, abs=1e-6)
    assert expected > positional_mad(11, 19, tiles(shift=SHIFT)) + 1e-3  # the far side is far


class BiasTable(nn.Module):
    """In place of SwinV2's small network: logits of a bias that is 16 at one offset, else 0."""

    def forward(self, coordinates):
        rows, cols = coordinates.shape[1:3]
        logits = coordinates.new_full((rows * cols, 2), -1e3)
        logits[bias_at(WINDOW)] = 1e3
        return logits.view(1, rows, cols, 2)


@pytest.mark.slow
def test_timm_swin_v2_puts_shifted_windows_back_on_a_non_square_grid():
    model = one_stage("swinv2_tiny_window8_256", (36, 80))
    for block in model.layers[0].blocks:
        quiet(block.attn.qkv)
        block.attn.cpb_mlp = BiasTable()
    plain, shifted = layer_means(model, (36, 80))
    for found, group in ((plain, tiles()), (shifted, tiles(shift=SHIFT))):
        assert found == pytest.approx([positional_mad(9, 20, group, peak=16.0)] * 2, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "grid", "shift"),
    [
        ((36, 80), (9, 20), SHIFT),
        ((52, 76), (13, 19), SHIFT),  # padded to 15x20
        ((52, 20), (13, 5), (1, 0)),  # one window across: no shift that way
    ],
)
def test_torchvision_swin_puts_shifted_and_padded_windows_back(size, grid, shift):
    declare_missing_ops()
    from torchvision.models.swin_transformer import SwinTransformer

    model = SwinTransformer([4, 4], 12, [2], [2], list(WINDOW), num_classes=5)
    for block in model.features[1]:
        quiet(block.attn.qkv)
        favoured(block.attn.relative_position_bias_table)
    plain, shifted = layer_means(model, size)
    assert plain == pytest.approx([positional_mad(*grid, tiles())] * 2, abs=1e-6)
    assert shifted == pytest.approx([positional_mad(*grid, tiles(shift=shift))] * 2, abs=1e-6)


@pytest.mark.slow
def test_maxvit_puts_blocks_and_lattices_back_on_a_non_square_grid():
    model = create_timm("maxvit_rmlp_pico_rw_256", **MAXVIT | {"transformer_rel_pos_type": "bias"})
    groups = []
    for stage, (rows, cols) in zip(model.stages, [(16, 24), (8, 12)]):
        for part in (stage.blocks[0].attn_block, stage.blocks[0].attn_grid):
            quiet_in_heads(part.attn)
            favoured(part.attn.rel_pos.relative_position_bias_table, window=(2, 3))
        groups += [(rows, cols, tiles((2, 3))), (rows, cols, lattice(rows, cols, (2, 3)))]
    for found, group in zip(layer_means(model, (64, 96)), groups, strict=True):
        expected = positional_mad(*group)
        assert found == pytest.approx([expected] * len(found), abs=1e-6)


def quiet_in_heads(attention):
    """As ``quiet``, where q, k and v of each head lie together."""
    width = 3 * attention.dim_head
    with torch.no_grad():
        for start in range(0, width * attention.num_heads, width):
            attention.qkv.weight[start : start + 2 * attention.dim_head] = 0
            attention.qkv.bias[start : start + 2 * attention.dim_head] = 0


def test_a_pooled_cell_of_pvt_sits_in_the_middle_of_its_patches():
    """2x4 patches attend evenly to two cells, each in the middle of 2x2 patches."""
    model = create_timm(
        "pvt_v2_b0", depths=(1,), embed_dims=(12,), num_heads=(2,), sr_ratios=(2,), mlp_ratios=(2,)
    )
    nn.init.zeros_(model.stages[0].blocks[0].attn.q.weight)
    nn.init.zeros_(model.stages[0].blocks[0].attn.q.bias)
    corner = math.sqrt(0.5) + math.hypot(0.5, 2.5)  # to both cells, from a patch of column 0 or 3
    inner = math.sqrt(0.5) + math.hypot(0.5, 1.5)  # from a patch of column 1 or 2
    expected = (corner + inner) / 4 / math.hypot(1, 3)
    assert layer_means(model, (8, 16))[0] == pytest.approx([expected] * 2, abs=1e-6)


@pytest.mark.slow
def test_pooled_cells_of_mvit_sit_on_the_middle_of_their_kernels():
    """Kernel 3, stride 2, padding 1 over a row of 5 patches: cells on patches 0, 2 and 4."""
    from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg

    settings = MultiScaleVitCfg(
        depths=(1,),
        embed_dim=(12,),
        num_heads=(2,),
        stride_q=((1, 1),),
        stride_kv=((2, 2),),
        rel_pos_type="",
    )
    model = MultiScaleVit(settings, img_size=(4, 20))
    quiet(model.stages[0].blocks[0].attn.qkv)
    away = [(0 + 2 + 4) / 3, (1 + 1 + 3) / 3, (2 + 0 + 2) / 3, (3 + 1 + 1) / 3, (4 + 2 + 0) / 3]
    expected = np.mean(away) / 4
    assert layer_means(model, (4, 20))[0] == pytest.approx([expected] * 2, abs=1e-6)


def test_the_table_says_which_families_have_a_closed_form():
    said = {str(case) for case in CASES if case.closed_form}
    assert said == {
        "nearsight: LocAt ViT",
        "nearsight: LocAt Swin",
        "nearsight: ConViT",
        "nearsight: ConViT, other image sizes",
        "nearsight: ConViT with PSA",
        "timm: Swin",
        "timm: SwinV2",
        "timm: MaxViT, channels last",
        "timm: MViTv2",
        "timm: PVTv2",
        "torchvision: Swin",
    }
