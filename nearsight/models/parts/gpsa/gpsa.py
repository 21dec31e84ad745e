"""Gated positional self-attention, GPSA (d'Ascoli et al. 2021, arXiv 2103.10697).

attention = (1 - g) softmax(q k^T / sqrt(d)) + g P,   g = sigmoid(gate), one per head
P = softmax over keys of w_1 dx + w_2 dy + w_3 (dx^2 + dy^2),   dx = column(key) - column(query)

Weight names are the published ones. Where we differ, and why:
- Attention by content uses the fused kernel: output = (1 - g) SDPA(q, k, v) + g P v. The mixture
  needs no normalisation, because the rows of both parts sum to one.
- The positional score is the sum of a term of dx and a term of dy, so P is the product of attention
  along rows and attention along columns. P v then takes rows + cols products per patch instead of
  rows x cols, and no matrix of patches x patches is needed.
- Grids need not be square. ``pos_proj`` has a bias, as published, although the softmax cancels it.
- ``mixing="summed"`` is PSA, the paper's negative control: scores are added before one softmax.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from nearsight.core import UserError
from nearsight.models.layers import (
    ATTENTION_FUNCTIONS,
    Grid,
    Mixture,
    TokenGrid,
    attend,
    attention_weights,
    join_heads,
)

GATE_START = 1.0  # gives position a share of sigmoid(1) = 0.731
GATE_FROZEN = 0.0  # gives position and content equal shares


class Positional(NamedTuple):
    """Attention by position alone, of each head: P[(r, c), (r', c')] = rows[r, r'] cols[c, c']."""

    rows: Float[Tensor, "head row row"]
    cols: Float[Tensor, "head col col"]

    def dense(
        self, heads: slice = slice(None), queries: slice = slice(None)
    ) -> Float[Tensor, "head query patch"]:
        """Return the attention of some heads and queries to all keys."""
        side = self.cols.shape[-1]
        index = torch.arange(self.rows.shape[-1] * side, device=self.rows.device)[queries]
        rows, cols = self.rows[heads, index // side], self.cols[heads, index % side]
        return (rows[..., :, None] * cols[..., None, :]).flatten(-2)


def positional_scores(
    weight: Float[Tensor, "head 3"], bias: Float[Tensor, " head"], grid: Grid
) -> tuple[Float[Tensor, "head row row"], Float[Tensor, "head col col"]]:
    """Return a term of the rows and one of the columns, whose sum is the score of two patches.

    Args:
        weight: Weight of ``pos_proj``.
        bias: Its bias, which is part of the term of the rows.
        grid: Rows and columns of patches.
    """
    x, y, square = (part[:, None, None] for part in weight.unbind(-1))
    terms = []
    for side, slope in ((grid.rows, y), (grid.cols, x)):
        place = torch.arange(side, device=weight.device, dtype=weight.dtype)
        offset = place - place[:, None]  # key - query
        terms.append(slope * offset + square * offset.square())
    return terms[0] + bias[:, None, None], terms[1]


def positional_attention(
    weight: Float[Tensor, "head 3"], bias: Float[Tensor, " head"], grid: Grid
) -> Positional:
    """Return attention by position, the same for every image, in float32 or float64.

    >>> sharp, none = torch.tensor([[0.0, 0.0, -1000.0]]), torch.zeros(1)
    >>> here = positional_attention(sharp, none, Grid(2, 3))
    >>> torch.equal(here.dense()[0], torch.eye(6))
    True
    """
    if weight.dtype != torch.float64:  # autocast would round only products, of which none follow
        weight, bias = weight.float(), bias.float()
    rows, cols = positional_scores(weight, bias, grid)
    return Positional(rows.softmax(-1), cols.softmax(-1))


def look_around(
    values: Float[Tensor, "batch head patch width"], positional: Positional
) -> Float[Tensor, "batch head patch width"]:
    """Return P @ values, where P is the attention by position, first along rows, then columns."""
    rows, cols = (part.to(values.dtype) for part in positional)
    grid = rows.shape[-1], cols.shape[-1]
    lines = rows @ values.unflatten(2, grid).flatten(3)  # [batch, head, row, col * width]
    cells = cols[:, None] @ lines.unflatten(3, (grid[1], -1))  # [batch, head, row, col, width]
    return cells.flatten(2, 3)


def gated_attention(
    queries: Float[Tensor, "batch head patch width"],
    keys: Float[Tensor, "batch head patch width"],
    values: Float[Tensor, "batch head patch width"],
    scale: float,
    gates: Float[Tensor, " head"],
    positional: Positional,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head patch width"]:
    """Return values weighted by the mixture of content (1 - g) and position (g).

    Args:
        queries: [batch, head, patch, width].
        keys: [batch, head, patch, width].
        values: [batch, head, patch, width].
        scale: Factor of the products of queries and keys.
        gates: Share of position, one per head.
        positional: Attention by position.
        dropout: Probability of dropping a weight of the mixture, which is then computed explicitly.
    """
    given = (queries, keys, values)
    if has_torch_function(given):
        return handle_torch_function(
            gated_attention, given, *given, scale, gates, positional, dropout
        )
    share = gates[:, None, None]
    if dropout:
        content = attention_weights(queries, keys, scale)
        mixed = (1 - share) * content + share * positional.dense()
        return F.dropout(mixed.to(values.dtype), dropout) @ values
    content = attend(queries, keys, values, scale)
    weighted = Positional(share * positional.rows, positional.cols)
    return torch.addcmul(look_around(values, weighted), content, (1 - share).to(content.dtype))


def _describe(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    gates: Tensor,
    positional: Positional,
    dropout: float = 0.0,
) -> dict[str, Any]:
    """Describe a call of ``gated_attention`` for capture: a softmax mixed with position."""
    content = {"queries": queries, "keys": keys, "values": values, "scale": scale}
    return {**content, "mixture": Mixture(gates, positional.dense)}


ATTENTION_FUNCTIONS[gated_attention] = _describe


class GPSA(nn.Module):
    """Attention between patches by content and by position; prefix tokens take no part.

    Args:
        width: Width of the tokens.
        num_heads: Number of heads.
        tokens: Where the tokens are; all layers of a model share it.
        bias: Whether queries, keys and values have a bias.
        mixing: "gated" mixes the two attentions by a gate (GPSA); "summed" adds their scores (PSA).
        inner_width: Width of all heads together; by default that of the tokens.
    """

    part_title = "GPSA"
    gating_param: nn.Parameter | None

    def __init__(
        self,
        width: int,
        num_heads: int,
        tokens: TokenGrid,
        bias: bool = False,
        mixing: Literal["gated", "summed"] = "gated",
        inner_width: int | None = None,
    ) -> None:
        super().__init__()
        inner = inner_width or width  # of all heads together
        if inner % num_heads:
            raise UserError(
                f"width {inner} is not divisible by {num_heads} heads; change width or num_heads"
            )
        self.num_heads = num_heads
        self.head_dim = inner // num_heads
        self.scale = self.head_dim**-0.5
        self.mixing = mixing
        self.tokens = tokens
        self.qk = nn.Linear(width, 2 * inner, bias=bias)
        self.v = nn.Linear(width, inner, bias=bias)
        self.proj = nn.Linear(inner, width)
        self.pos_proj = nn.Linear(3, num_heads)
        gated = mixing == "gated"
        self.gating_param = nn.Parameter(torch.full((num_heads,), GATE_START)) if gated else None
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        self.norm: nn.Module = nn.Identity()
        self.attn_drop = nn.Dropout(0.0)
        self.proj_drop: nn.Module = nn.Identity()
        for linear in (self.qk, self.v, self.proj, self.pos_proj):
            nn.init.trunc_normal_(linear.weight, std=0.02)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @property
    def kernel_side(self) -> int:
        """The side of the largest square kernel in which every position has a head."""
        return math.isqrt(self.num_heads)

    @torch.no_grad()
    def start_as_convolution(self, strength: float) -> None:
        """Make head h attend to position h of a square kernel.

        Values become the inputs themselves if they are as wide. Heads that have no position in the
        kernel keep their random initialisation.

        Args:
            strength: How sharply heads attend to their position.
        """
        if self.v.weight.shape[0] == self.v.weight.shape[1]:
            nn.init.eye_(self.v.weight)
            if self.v.bias is not None:
                nn.init.zeros_(self.v.bias)
        side = self.kernel_side
        centres = torch.arange(side) - (side - 1) / 2
        places = torch.cartesian_prod(centres, centres)  # [head, 2]: columns, then rows
        start = torch.cat([2 * places, -torch.ones(side**2, 1)], 1)
        self.pos_proj.weight[: side**2] = strength * start

    def gates(self) -> Float[Tensor, " head"] | None:
        """Return the share of position in each head's attention, or None without a gate."""
        return None if self.gating_param is None else self.gating_param.sigmoid()

    def forward(
        self,
        x: Float[Tensor, "batch patch width"],
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch patch width"]:
        """Return the output of attention by content and by position, mixed by the gates."""
        if attn_mask is not None or is_causal:
            raise UserError(
                "GPSA attends between all patches and does not support a mask; leave out attn_mask "
                "and is_causal"
            )
        self.tokens.check(self.tokens.num_prefix + x.shape[1])
        q, k = self.qk(x).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        v = self.v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, k = self.q_norm(q), self.k_norm(k)
        dropout = self.attn_drop.p if self.training else 0.0
        learned = self.pos_proj.weight, self.pos_proj.bias, self.tokens.grid
        if (gates := self.gates()) is None:
            rows, cols = positional_scores(*learned)
            scores = rows[:, :, None, :, None] + cols[:, None, :, None, :]
            mask = scores.flatten(3).flatten(1, 2)[None].to(q.dtype)  # [1, head, patch, patch]
            out = attend(q, k, v, self.scale, mask=mask, dropout=dropout)
        else:
            positional = positional_attention(*learned)
            out = gated_attention(q, k, v, self.scale, gates, positional, dropout)
        return self.proj_drop(self.proj(self.norm(join_heads(out))))
