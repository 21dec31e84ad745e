"""Where a head puts its attention: on the patch itself, its surroundings, or the prefix tokens.

Surroundings are counted in Chebyshev rings: ring r of a patch is the border of the square of 2r + 1
by 2r + 1 patches around it, so ring 0 is the patch itself and rings 0 and 1 form the 3x3 box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.definition import (
    RowMetric,
    Sum,
    block_of_rows,
    check_rows,
    mean_over_rows,
    whole_block,
)
from nearsight.measure.rows import Rows, wide
from nearsight.models.layers import Grid

RADII = (1, 2, 3)


def near_sums(rows: Rows) -> Float[Tensor, "image head radius"]:
    """Mass on the own patch, and within radius 1, 2 and 3, summed over queries."""
    index, taken = (x[:, None, rows.span] for x in rows.geometry.near)
    slots = rows.weights.gather(-1, index.expand(*rows.weights.shape[:4], index.shape[-1]))
    sums = wide(slots.mul_(taken).sum((1, 3)))  # [image, head, slot]
    return sums @ rows.geometry.near_counts.to(sums.device)


def ring_sums(rows: Rows) -> Float[Tensor, "image head ring"]:
    """Mass on every Chebyshev ring, summed over queries; rings of pooled cells are rounded up."""
    rings = rows.geometry.rings[:, None, rows.span].expand(rows.weights.shape)
    empty = rows.weights.new_zeros(*rows.weights.shape[:4], rows.geometry.num_rings)
    return wide(empty.scatter_add_(-1, rings, rows.weights)).sum((1, 3))


def sink_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Mass on keys without a position on the image, summed over queries."""
    assert rows.sink is not None
    return wide(rows.sink.sum((1, 3)))


def mass_within(radii: Sequence[int]) -> RowMetric:
    """Return the metric of the mass within these radii."""
    return RowMetric(NEAR, lambda total, at: mean_over_rows(total[..., list(radii)], at))


NEAR = Sum(near_sums, kernel="near_sums")
SELF_MASS = RowMetric(
    NEAR,
    lambda total, at: mean_over_rows(total[..., 0], at),
    uniform=lambda grid: 1 / grid.num_patches,
)
RADIUS_MASS = mass_within(RADII)
RING_MASS = RowMetric(Sum(ring_sums), mean_over_rows)
SINK = RowMetric(Sum(sink_sums, needs_sink=True), mean_over_rows)


def self_mass(attention: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head"]:
    """(1/N) sum_i A_ii: the share of attention that stays on its own patch, per image and head.

    1: every patch attends only to itself (then MAD is 0 too). 0: no patch attends to itself.
    Uniform attention: 1/N.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.

    Returns:
        One share per image and head, in float64.

    >>> import torch
    >>> self_mass(torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])).item()
    0.375
    """
    return SELF_MASS.of_block(block_of_rows(check_rows(attention, attention.shape[-1])))


def ring_mass(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head ring"]:
    """Mean mass on every Chebyshev ring 0 .. max(rows, cols) - 1: the full distance profile.

    The shares sum to one. All in ring 0: every patch attends only to itself. All in the last ring:
    every patch attends to the far side of the image, which only patches at the border can.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.

    Returns:
        Shares per image, head and ring, in float64.

    >>> import torch
    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> ring_mass(everywhere, Grid(1, 4)).flatten().tolist()
    [0.25, 0.375, 0.25, 0.125]
    """
    return RING_MASS.of_block(whole_block(attention, grid))


def radius_mass(
    attention: Float[Tensor, "batch head query key"], grid: Grid, radii: Sequence[int] = RADII
) -> Float[Tensor, "batch head radius"]:
    """Mean mass within Chebyshev distance r of the query, for every radius r.

    The shares grow with the radius. Radius 1 is the 3x3 box (cut at the edge of the image), 2 the
    5x5 box, 3 the 7x7 box. 1: no patch attends farther. 0: no patch attends as near.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.
        radii: Radii in patches.

    Returns:
        Shares per image, head and radius, in float64.

    >>> import torch
    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> radius_mass(everywhere, Grid(1, 4)).flatten().tolist()
    [0.625, 0.875, 1.0]
    """
    return mass_within(radii).of_block(whole_block(attention, grid, max_radius=max(radii)))


def sink_mass(
    attention: Float[Tensor, "batch head token token"], num_prefix: int
) -> Float[Tensor, "batch head"]:
    """Mean mass that patches give to prefix tokens (class and register tokens), per image and head.

    This is what the other metrics drop before they renormalise. Rows of the prefix tokens
    themselves do not count. 0: patches attend to patches only. 1: to prefix tokens only.

    Args:
        attention: Attention over all tokens, prefix tokens first, whose rows sum to one.
        num_prefix: Number of prefix tokens.

    Returns:
        One share per image and head, in float64.

    >>> import torch
    >>> sink_mass(torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]]]), 1).item()
    0.25
    """
    rows = check_rows(attention, attention.shape[-1])[..., num_prefix:, :]
    sink = rows[..., :num_prefix].sum(-1)[:, None]  # [image, window, head, query]
    return SINK.of_block(replace(block_of_rows(rows[..., num_prefix:]), sink=sink))
