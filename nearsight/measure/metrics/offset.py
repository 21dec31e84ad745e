"""In which direction a head attends, and how consistently.

The offset of a pair is the position of the key minus that of the query, (down, right) in patches. A
head that always attends to the patch above has the mean offset (-1, 0) and no spread, except at the
upper border, where there is no patch above.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.rows import Rows, wide
from nearsight.models.layers import Grid


def row_offsets(rows: Rows) -> Float[Tensor, "image window head query 4"]:
    """Mass of every row, its summed offset (down, right) and squared distance, in patches."""
    weights = wide(rows.weights)
    cells = rows.geometry.cells.to(weights)[:, None]  # [window, 1, key, 2]
    points = rows.geometry.points[:, rows.span].to(weights)[:, None]
    ones = torch.ones_like(cells[..., :1])
    moments = torch.cat([ones, cells, cells.square().sum(-1, keepdim=True)], -1)
    mass, place, square = (weights @ moments).split([1, 2, 1], dim=-1)
    crossed = 2 * (place * points).sum(-1, keepdim=True)
    far = square - crossed + mass * points.square().sum(-1, keepdim=True)
    return torch.cat([mass, place - mass * points, far], dim=-1)


def offset_sums(rows: Rows) -> Float[Tensor, "image head 4"]:
    """Mass, offset (down, right) and squared distance, summed over queries."""
    return row_offsets(rows).sum((1, 3))


def spread(total: Tensor, at: Geometry) -> Tensor:
    """Root mean square distance of attended offsets from their mean, given ``offset_sums``."""
    mass, offset, square = total.split([1, 2, 1], dim=-1)
    variance = square / mass - (offset / mass).square().sum(-1, keepdim=True)
    return variance[..., 0].clamp(min=0).sqrt()


OFFSETS = Sum(offset_sums)
OFFSET = RowMetric(OFFSETS, lambda total, at: mean_over_rows(total[..., 1:3], at))
OFFSET_SPREAD = RowMetric(OFFSETS, spread)


def mean_offset(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head 2"]:
    """Mean attended offset (dy, dx) = (1/N) sum_i sum_j A_ij (p_j - p_i), per image and head.

    It is in patches; down and right are positive. (0, 0): attention goes as far in one direction as
    in the opposite one (to the patch itself, to a box around it, or everywhere). The extreme value
    (rows - 1, cols - 1) cannot be reached, because only a patch in a corner can look so far.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.

    Returns:
        (down, right) per image and head, in float64.

    >>> mean_offset(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]), Grid(1, 2)).flatten().tolist()
    [0.0, 0.5]
    """
    return OFFSET.of_block(whole_block(attention, grid))


def offset_spread(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """Root mean square distance of attended offsets from the head's mean offset.

    sqrt((1/N) sum_i sum_j A_ij |p_j - p_i - offset|^2), in patches, over all queries of an image.
    0: every patch attends to a single patch, always in the same direction and at the same distance.
    Large: directions or distances vary within rows or from row to row.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.

    Returns:
        One number per image and head, in float64.

    >>> both = torch.full((1, 1, 2, 2), 0.5)
    >>> round(offset_spread(both, Grid(1, 2)).item(), 4)
    0.7071
    """
    return OFFSET_SPREAD.of_block(whole_block(attention, grid))
