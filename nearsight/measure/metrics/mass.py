"""On what a head spends its attention: the patch itself, its surroundings, the prefix tokens.

Surroundings are counted in Chebyshev rings: ring r of a patch is the border of the square of
2r + 1 by 2r + 1 patches around it, so ring 0 is the patch and rings 0 and 1 the 3x3 box.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.measure.metrics.distance import checked_rows
from nearsight.models.layers import Grid

RADII = (1, 2, 3)


def self_mass(attention: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head"]:
    """(1/N) sum_i A_ii, per image and head, in float64.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. A share,
    no unit. 1: every patch looks only at itself (then MAD is 0 too). 0: no patch looks at itself.
    Uniform attention: 1/N.

    >>> import torch
    >>> self_mass(torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])).item()
    0.375
    """
    wide = checked_rows(attention, attention.shape[-1])
    return wide.diagonal(dim1=-2, dim2=-1).mean(-1)


def ring_mass(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head ring"]:
    """The full distance profile: mean mass on every Chebyshev ring 0 .. max(rows, cols) - 1.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. Shares, no
    unit; they sum to one. All in ring 0: every patch looks only at itself. All in the last ring:
    at the far side of the image, which only patches at the border can. Float64.

    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> ring_mass(everywhere, Grid(1, 4)).flatten().tolist()
    [0.25, 0.375, 0.25, 0.125]
    """
    wide = checked_rows(attention, grid.num_patches)
    rings = _rings(grid).to(wide.device)
    masses = [(wide * (rings == ring)).sum((-2, -1)) for ring in range(max(grid.rows, grid.cols))]
    return torch.stack(masses, dim=-1) / grid.num_patches


def radius_mass(
    attention: Float[Tensor, "batch head query key"], grid: Grid, radii: Sequence[int] = RADII
) -> Float[Tensor, "batch head radius"]:
    """Mean mass within Chebyshev distance r of the query, for every radius r.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. Shares, no
    unit, that grow with the radius. Radius 1 is the 3x3 box (cut at the edge), 2 the 5x5 box, 3
    the 7x7 box. 1: no patch looks beyond; 0: no patch looks as near. Float64.

    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> radius_mass(everywhere, Grid(1, 4)).flatten().tolist()
    [0.625, 0.875, 1.0]
    """
    rings = ring_mass(attention, grid)
    return torch.stack([rings[..., : radius + 1].sum(-1) for radius in radii], dim=-1)


def sink_mass(
    attention: Float[Tensor, "batch head token token"], num_prefix: int
) -> Float[Tensor, "batch head"]:
    """Mean mass that the patches give to prefix tokens (class and register tokens).

    ``attention`` is over all tokens, prefix tokens first, and its rows sum to one: what the other
    metrics drop before they renormalise. A share, no unit. 0: patches look at patches only. 1: at
    prefix tokens only. Rows of the prefix tokens themselves do not count. Float64.

    >>> sink_mass(torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]]]), 1).item()
    0.25
    """
    wide = checked_rows(attention, attention.shape[-1])
    return wide[..., num_prefix:, :num_prefix].sum(-1).mean(-1)


def _rings(grid: Grid) -> Int64[Tensor, "query key"]:
    points = grid.coordinates().long()
    return (points[:, None] - points[None]).abs().amax(-1)
