"""In which direction a head looks, and how surely.

The offset of a pair is the place of the key minus that of the query, (down, right) in patches. A
head that always looks at the patch above has the mean offset (-1, 0) and no spread but that of the
upper border, where there is no patch above.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.distance import checked_rows
from nearsight.models.layers import Grid


def mean_offset(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head 2"]:
    """Mean attended offset (dy, dx): (1/N) sum_i sum_j A_ij (p_j - p_i).

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. In patches,
    down and right positive. (0, 0): the head looks evenly around itself (at itself, in a box, at
    everything alike). (rows - 1, cols - 1) is out of reach: only a corner can look so far. Float64.

    >>> mean_offset(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]), Grid(1, 2)).flatten().tolist()
    [0.0, 0.5]
    """
    wide = checked_rows(attention, grid.num_patches)
    offsets = _offsets(grid).to(wide.device)
    return torch.einsum("bhqk,qka->bha", wide, offsets) / grid.num_patches


def offset_spread(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """Root mean square distance of attended offsets from the head's mean offset.

    sqrt((1/N) sum_i sum_j A_ij |p_j - p_i - offset|^2), in patches, over all queries of an image.
    ``attention`` is over patches and its rows sum to one. 0: every patch looks in one direction and
    exactly as far. Large: directions or distances vary, within rows or from row to row. Float64.

    >>> both = torch.full((1, 1, 2, 2), 0.5)
    >>> round(offset_spread(both, Grid(1, 2)).item(), 4)
    0.7071
    """
    wide = checked_rows(attention, grid.num_patches)
    offsets = _offsets(grid).to(wide.device)
    mean = mean_offset(attention, grid)[:, :, None, None]  # [batch, head, 1, 1, axis]
    away = (offsets - mean).square().sum(-1)  # [batch, head, query, key]
    return ((wide * away).sum((-2, -1)) / grid.num_patches).sqrt()


def _offsets(grid: Grid) -> Float[Tensor, "query key 2"]:
    points = grid.coordinates()
    return points[None] - points[:, None]
