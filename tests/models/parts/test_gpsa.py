"""GPSA: positional attention in two factors, the gate, the convolution it starts as, PSA."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from timm.layers.attention import Attention
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.layers.attention import SelfAttention
from nearsight.models.layers.grid import Grid, TokenGrid
from nearsight.models.parts.gpsa.gpsa import (
    GPSA,
    Positional,
    gated_attention,
    look_around,
    positional_attention,
)

GRID = Grid(3, 5)


def layer(
    width: int, heads: int, grid: Grid = GRID, std: float = 0.3, mixing: str = "gated"
) -> GPSA:
    """A layer whose weights are large enough that content and position both matter."""
    torch.manual_seed(0)
    gpsa = GPSA(width, heads, TokenGrid(grid, num_prefix=0), bias=True, mixing=mixing)  # type: ignore[arg-type]
    for parameter in gpsa.parameters():
        nn.init.normal_(parameter, std=std)
    return gpsa


def scores_by_loops(weight: Tensor, bias: Tensor, grid: Grid) -> Tensor:
    """w . (dx, dy, dx^2 + dy^2) + b of every head, query and key, one by one."""
    num = grid.num_patches
    found = torch.zeros(len(weight), num, num)
    for head, (a, b, c) in enumerate(weight.tolist()):
        for query in range(num):
            for key in range(num):
                dx = key % grid.cols - query % grid.cols
                dy = key // grid.cols - query // grid.cols
                found[head, query, key] = a * dx + b * dy + c * (dx**2 + dy**2) + bias[head]
    return found


def test_one_row_of_two_patches_by_hand():
    """A slope of ln 3 to the right: three quarters of the attention go there."""
    found = positional_attention(
        torch.tensor([[math.log(3), 7.0, 0.0]]), torch.tensor([5.0]), Grid(1, 2)
    )
    expected = torch.tensor([[[0.25, 0.75], [0.25, 0.75]]])
    torch.testing.assert_close(found.dense(), expected)


def test_the_product_of_rows_and_columns_is_the_softmax_over_all_keys():
    torch.manual_seed(0)
    weight, bias = torch.randn(7, 3), torch.randn(7)
    whole = scores_by_loops(weight, bias, GRID).softmax(-1)
    found = positional_attention(weight, bias, GRID)
    torch.testing.assert_close(found.dense(), whole, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.dense(queries=slice(4, 9)), whole[:, 4:9], atol=1e-6, rtol=0)
    values = torch.randn(2, 7, 15, 11)
    torch.testing.assert_close(look_around(values, found), whole @ values, atol=1e-5, rtol=0)


def test_gated_attention_is_the_mixture_of_both_softmaxes():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 7, 15, 11)
    weight, bias, gates = torch.randn(7, 3), torch.randn(7), torch.rand(7)
    position = scores_by_loops(weight, bias, GRID).softmax(-1)
    content = (q @ k.mT / 11**0.5).softmax(-1)
    share = gates[:, None, None]
    expected = ((1 - share) * content + share * position) @ v
    found = gated_attention(q, k, v, 11**-0.5, gates, positional_attention(weight, bias, GRID))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [SelfAttention, Attention])
def test_with_the_gate_shut_it_is_plain_attention(kind: type[nn.Module]):
    gpsa, x = layer(14, 2), torch.randn(2, 15, 14)
    plain = kind(14, 2) if kind is SelfAttention else kind(14, 2, qkv_bias=True)
    plain.qkv.weight.data = torch.cat([gpsa.qk.weight, gpsa.v.weight]).detach()
    plain.qkv.bias.data = torch.cat([gpsa.qk.bias, gpsa.v.bias]).detach()
    plain.proj.load_state_dict(gpsa.proj.state_dict())
    with torch.no_grad():
        assert gpsa.gating_param is not None
        gpsa.gating_param.fill_(-99.0)
        torch.testing.assert_close(gpsa(x), plain(x), atol=1e-5, rtol=0)
        gpsa.gating_param.fill_(0.0)
        assert (gpsa(x) - plain(x)).abs().max() > 1e-2


@pytest.mark.parametrize(("side", "kernel"), [(1, 1), (2, 3), (3, 3), (4, 5), (5, 5)])
def test_with_the_gate_open_and_a_large_strength_it_is_a_convolution(side: int, kernel: int):
    """Replicate padding: from a place beyond the edge the nearest patch gets all attention.

    An even kernel's centres lie between patches, where four share one tap.
    """
    heads, width = side**2, 3 * side**2
    gpsa = layer(width, heads, Grid(5, 7))
    gpsa.start_as_convolution(strength=40.0)
    maps = torch.randn(2, width, 5, 7)
    weight = torch.zeros(width, width, kernel, kernel)
    for head in range(heads):
        inputs = slice(head * 3, head * 3 + 3)  # values are the inputs: head h has its part of them
        taps = gpsa.proj.weight.detach()[:, inputs]
        col, row = divmod(head, side)
        if side % 2:
            weight[:, inputs, row, col] = taps
        else:
            weight[:, inputs, row : row + 2, col : col + 2] = taps[..., None, None] / 4
    padded = F.pad(maps, (kernel // 2,) * 4, mode="replicate")
    expected = F.conv2d(padded, weight, gpsa.proj.bias)
    with torch.no_grad():
        assert gpsa.gating_param is not None
        gpsa.gating_param.fill_(99.0)
        found = gpsa(maps.flatten(2).mT).mT.unflatten(2, (5, 7))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_heads_beyond_the_kernel_keep_their_random_start():
    gpsa = layer(21, 7)
    before = gpsa.pos_proj.weight.detach().clone()
    gpsa.start_as_convolution(strength=2.0)
    found = gpsa.pos_proj.weight.detach()
    assert gpsa.kernel_side == 2
    expected = [[-2.0, -2.0, -2.0], [-2.0, 2.0, -2.0], [2.0, -2.0, -2.0], [2.0, 2.0, -2.0]]
    torch.testing.assert_close(found[:4], torch.tensor(expected))
    assert found[4:].equal(before[4:])


def test_psa_adds_the_scores_before_one_softmax():
    gpsa, x = layer(14, 2, mixing="summed"), torch.randn(3, 15, 14)
    scores = scores_by_loops(gpsa.pos_proj.weight, gpsa.pos_proj.bias, GRID)
    q, k = gpsa.qk(x).unflatten(-1, (2, 2, 7)).unbind(2)  # [batch, patch, head, width]
    v = gpsa.v(x).unflatten(-1, (2, 7))
    logits = torch.einsum("bqhw,bkhw->bhqk", q, k) / 7**0.5 + scores
    out = torch.einsum("bhqk,bkhw->bqhw", logits.softmax(-1), v).flatten(2)
    torch.testing.assert_close(gpsa(x), gpsa.proj(out), atol=1e-5, rtol=0)
    assert gpsa.gates() is None


def test_dropout_acts_on_the_mixture():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 7, 15, 11)
    positional = positional_attention(torch.randn(7, 3), torch.zeros(7), GRID)
    gates = torch.rand(7)
    share = gates[:, None, None]
    mixed = (1 - share) * (q @ k.mT * 0.3).softmax(-1) + share * positional.dense()
    torch.manual_seed(5)
    expected = F.dropout(mixed, 0.25) @ v
    torch.manual_seed(5)
    found = gated_attention(q, k, v, 0.3, gates, positional, dropout=0.25)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mixing", ["gated", "summed"])
def test_the_gradient_is_that_of_the_explicit_mixture(mixing: str):
    gpsa = layer(14, 2, mixing=mixing).double()
    x = torch.randn(2, 15, 14, dtype=torch.float64, requires_grad=True)
    gpsa(x).square().sum().backward()
    found = {name: parameter.grad.clone() for name, parameter in gpsa.named_parameters()}
    assert len(found) == (9 if mixing == "gated" else 8)
    for name, parameter in gpsa.named_parameters():
        step = torch.zeros_like(parameter)
        step.view(-1)[0] = 1e-5
        with torch.no_grad():
            parameter += step
            above = gpsa(x).square().sum()
            parameter -= 2 * step
            below = gpsa(x).square().sum()
            parameter += step
        slope = float(above - below) / 2e-5
        assert found[name].view(-1)[0].item() == pytest.approx(slope, rel=1e-4, abs=1e-6), name


def test_wrong_tokens_masks_and_widths_are_refused():
    gpsa = layer(14, 2)
    with pytest.raises(UserError, match=r"16 tokens, .* a grid of 3x5 patches make 15"):
        gpsa(torch.randn(1, 16, 14))
    with pytest.raises(UserError, match=r"^GPSA .*\bmask\b.*\bis_causal\b"):
        gpsa(torch.randn(1, 15, 14), is_causal=True)
    with pytest.raises(UserError, match=r"\b14\b.*\b3 heads\b.*\bnum_heads\b"):
        layer(14, 3)


def test_positional_attention_is_float32_whatever_the_precision():
    """In bfloat16 a far patch's squared offset, 13^2 = 169, would lose its last bits."""
    weight, bias = torch.randn(2, 3).bfloat16(), torch.randn(2).bfloat16()
    found = positional_attention(weight, bias, Grid(14, 14))
    wide = positional_attention(weight.float(), bias.float(), Grid(14, 14))
    assert found.rows.dtype == torch.float32
    assert isinstance(found, Positional)
    assert found.rows.equal(wide.rows)
    with torch.autocast("cpu", torch.bfloat16):
        inside = positional_attention(weight.float(), bias.float(), Grid(14, 14))
    assert inside.cols.equal(wide.cols)
