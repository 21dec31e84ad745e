"""How far attention reaches.

Mean attention distance (MAD) is the expected distance between a query patch and the patch it
attends to, averaged over all queries. The convention is that of the protocol paper: prefix tokens
are dropped, rows are renormalised, and Euclidean distances between patch centres are in units of
the grid diagonal. ``convention.py`` has other conventions.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.layout import Geometry
from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.metrics.mass import NEAR
from nearsight.measure.rows import Rows, wide
from nearsight.models.layers import Grid, Unit

# MAD without self is computed from differences of float32 sums. Their relative error is at most
# 1e-4 if at least this share of the attention leaves its own patch; otherwise the rows are summed
# again.
LEAST_LEAVING = 0.01


def distance_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Attended distance in patches, summed over queries."""
    table = rows.geometry.distances[:, None, rows.span].to(rows.weights.dtype)
    out = None if rows.weights.requires_grad else rows.scratch  # gradients need their own memory
    attended = torch.mul(rows.weights, table, out=out)
    return wide(attended.sum(-1).sum((1, 3)))


def kept_distance_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Attended distance in patches, summed over queries, if rows are not renormalised."""
    assert rows.sink is not None
    table = rows.geometry.distances[:, None, rows.span].to(rows.weights.dtype)
    attended = (rows.weights * table).sum(-1)  # [image, window, head, query]
    return wide(attended.mul_(1 - rows.sink).sum((1, 3)))


def leaving_sums(rows: Rows) -> Float[Tensor, "image head 2"]:
    """Attended distance and mass of the attention that leaves its patch, summed over queries."""
    own = rows.geometry.near[0][:, None, rows.span, :1]  # [window, 1, query, 1]
    away = rows.weights.scatter(-1, own.expand(*rows.weights.shape[:4], 1), 0.0)
    table = rows.geometry.distances[:, None, rows.span].to(away.dtype)
    mass = wide(away.sum(-1).sum((1, 3)))
    return torch.stack([wide(away.mul_(table).sum(-1).sum((1, 3))), mass], dim=-1)


def derived_leaving_sums(
    distances: Float[Tensor, "image head"], near: Float[Tensor, "image head radius"], at: Geometry
) -> Float[Tensor, "image head 2"]:
    """Compute ``leaving_sums`` from the attended distance and the mass on the own patch.

    The result is NaN where so little attention leaves the own patch that the difference would lose
    digits. It is NaN everywhere if keys are pooled, because the own key is then not at distance 0.
    """
    mass = at.grid.num_patches - near[..., 0]
    sums = torch.stack([distances, mass], dim=-1)
    if not at.own_at_zero:
        return torch.full_like(sums, torch.nan)
    lost = mass < LEAST_LEAVING * at.grid.num_patches
    return sums.masked_fill(lost[..., None], torch.nan)


def in_diagonals(total: Tensor, at: Geometry) -> Tensor:
    """Mean distance in grid diagonals."""
    return mean_over_rows(total, at) / at.grid.diagonal


def patches_without_self(total: Tensor, at: Geometry) -> Tensor:
    """Distance divided by mass, and 0 where no attention leaves its patch."""
    distance, mass = total[..., 0], total[..., 1]
    return torch.where(mass == 0, 0.0, distance / torch.where(mass == 0, 1.0, mass))


def score(total: Tensor, at: Geometry) -> Tensor:
    """One minus the mean distance relative to that of uniform attention."""
    return 1 - mean_over_rows(total, at) / at.uniform_distance if at.uniform_distance else total


DISTANCES = Sum(distance_sums, kernel="distance_sums")
LEAVING = Sum(leaving_sums, parts=(DISTANCES, NEAR), derive=derived_leaving_sums)
MAD = RowMetric(DISTANCES, in_diagonals, uniform=Grid.uniform_distance)
MAD_NOT_RENORMALISED = RowMetric(Sum(kept_distance_sums, needs_sink=True), in_diagonals)
NONLOCALITY = RowMetric(DISTANCES, mean_over_rows)
SCORE = RowMetric(DISTANCES, score)
MAD_WITHOUT_SELF = RowMetric(
    LEAVING, lambda total, at: patches_without_self(total, at) / at.grid.diagonal
)
PATCHES_WITHOUT_SELF = RowMetric(LEAVING, patches_without_self)


def mean_attention_distance(
    attention: Float[Tensor, "batch head query key"], grid: Grid, unit: Unit = "diagonal"
) -> Float[Tensor, "batch head"]:
    """MAD = (1/N) sum_i sum_j A_ij d_ij, per image and head.

    0: every patch attends to itself. Uniform attention gives ``grid.uniform_distance(unit)``, which
    is 0.4178 grid diagonals on 8x8 patches. Larger values: patches attend to the far side of the
    image.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.
        unit: "diagonal" for the diagonal of the grid (values in 0..1), or "patches".

    Returns:
        One number per image and head, in float64.

    >>> import torch
    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> round(mean_attention_distance(everywhere, Grid(2, 2), unit="patches").item(), 4)
    0.8536
    """
    return _in_unit(unit, MAD, NONLOCALITY).of_block(whole_block(attention, grid))


def nonlocality(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """ConViT's D_loc = (1/N) sum_i sum_j A_ij d_ij with distances d in patches.

    It equals MAD times the grid diagonal. 0: every patch attends to itself. Unlike MAD, it grows
    with the number of patches for the same picture of attention.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.

    Returns:
        One number per image and head, in float64.

    >>> nonlocality(torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]]), Grid(1, 2)).item()
    0.25
    """
    return NONLOCALITY.of_block(whole_block(attention, grid))


def mad_without_self(
    attention: Float[Tensor, "batch head query key"], grid: Grid, unit: Unit = "diagonal"
) -> Float[Tensor, "batch head"]:
    """Mean attention distance of the attention that leaves its own patch.

    sum_i sum_{j != i} A_ij d_ij / sum_i sum_{j != i} A_ij is a ratio of sums. It weighs a patch by
    the attention it sends away, so that MAD = (1 - self-mass) x MAD without self holds exactly. A
    head that attends only to itself sends nothing away; its value is 0 by definition. The smallest
    value of any other head is one patch.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.
        unit: "diagonal" for the diagonal of the grid (values in 0..1), or "patches".

    Returns:
        One number per image and head, in float64.

    >>> one = torch.tensor([[[[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]]]])
    >>> round(mad_without_self(one, Grid(1, 3), unit="patches").item(), 6)
    1.0
    """
    metric = _in_unit(unit, MAD_WITHOUT_SELF, PATCHES_WITHOUT_SELF)
    return metric.of_block(whole_block(attention, grid))


def distance_score(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """1 - MAD / (MAD of uniform attention): nearness, comparable between grids of any size.

    It has no unit. 1: every patch attends only to itself. 0: as far as uniform attention, and by
    definition on a grid of a single patch. Negative: farther than uniform attention.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.
        grid: Rows and columns of patches.

    Returns:
        One number per image and head, in float64.

    >>> distance_score(torch.full((1, 1, 6, 6), 1 / 6), Grid(2, 3)).round(decimals=6).item() + 0.0
    0.0
    """
    return SCORE.of_block(whole_block(attention, grid))


def _in_unit(unit: Unit, diagonals: RowMetric, patches: RowMetric) -> RowMetric:
    """Return the metric that is in this unit."""
    if unit not in ("diagonal", "patches"):
        raise UserError(f"unit is {unit!r}, but it must be 'diagonal' or 'patches'")
    return diagonals if unit == "diagonal" else patches
