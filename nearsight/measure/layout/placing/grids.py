"""Sort measured centres of tokens into the rows and columns of a grid.

Centres are in pixels and never exactly on a lattice: convolutions pull those at the border inwards,
and a few draws of noise leave an error. An arrangement is trusted if there is a clear gap between
neighbouring rows and columns. The gap is given in cells (the side of the image divided by the
number of rows or columns). The centres of tokens that depend on the whole image all lie near its
middle, so their gap in cells is small however little noise there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.models.layers import Grid

MIN_GAP = 0.1  # smallest clear gap between neighbouring rows or columns, in cells


@dataclass(frozen=True)
class Arrangement:
    """Tokens in the rows and columns of a grid, one token in each cell."""

    grid: Grid
    cells: Int64[Tensor, " token"]  # number of the cell, row by row
    gap: float  # smallest gap between neighbouring rows and columns, in cells
    row_centres: Float[Tensor, " row"]  # mean over the tokens of a row, in pixels
    col_centres: Float[Tensor, " col"]


def arrange(centres: Float[Tensor, "token 2"], size: tuple[int, int]) -> Arrangement | None:
    """Find the grid in which every cell holds exactly one token, and the cell of every token.

    All numbers of rows that divide the number of tokens are tried. The grid whose rows and columns
    are tightest is taken: with too few rows, a row would contain tokens of different heights, and
    with too many, the same would happen to the columns.

    Args:
        centres: Centres of the tokens in pixels.
        size: Height and width of the image in pixels.

    Returns:
        The arrangement, whose gap may be too small to be trusted; None if rows or columns of the
            tightest grid overlap or two tokens are in one cell.

    >>> centres = torch.tensor([[12.0, 4.0], [4.0, 4.1], [4.1, 12.0], [12.0, 11.9]])
    >>> found = arrange(centres.double(), (16, 16))
    >>> str(found.grid), found.cells.tolist(), round(found.gap, 2)
    ('2x2', [2, 0, 1, 3], 0.97)
    """
    best: tuple[float, Grid, list[_Side]] | None = None
    orders = [positions.argsort(stable=True) for positions in centres.T]
    for grid in _grids(len(centres)):
        sides = [
            _cut(centres[:, axis], orders[axis], num, size[axis])
            for axis, num in enumerate((grid.rows, grid.cols))
        ]
        looseness = sum(side.looseness for side in sides)
        if best is None or looseness < best[0]:
            best = looseness, grid, sides
    if best is None:
        return None
    _, grid, (rows, cols) = best
    cells = rows.groups * grid.cols + cols.groups
    gap = min(rows.gap, cols.gap)
    if gap <= 0 or len(cells.unique()) < len(cells):
        return None
    return Arrangement(grid, cells, gap, rows.centres, cols.centres)


def _grids(num_tokens: int) -> Iterator[Grid]:
    """Yield all grids with this number of cells."""
    for rows in range(1, num_tokens + 1):
        if num_tokens % rows == 0:
            yield Grid(rows, num_tokens // rows)


@dataclass(frozen=True)
class _Side:
    """Tokens cut into equal groups along one side of the image."""

    groups: Tensor  # number of the group of every token
    gap: float  # smallest gap between neighbouring groups, in cells
    centres: Tensor  # mean of every group, in pixels
    looseness: float  # mean squared distance to the middle of a token's group, in image sides


def _cut(positions: Tensor, order: Tensor, num_groups: int, length: int) -> _Side:
    """Cut tokens into equal groups along one side of the image.

    Args:
        positions: Coordinates of the tokens along this side.
        order: The order that sorts them.
        num_groups: How many groups to make.
        length: Length of the side in pixels.
    """
    groups = positions[order].view(num_groups, -1)
    numbers = torch.arange(num_groups).repeat_interleave(groups.shape[1])
    gaps = groups[1:, 0] - groups[:-1, -1]
    gap = float(gaps.min()) * num_groups / length if num_groups > 1 else 1.0
    looseness = float(groups.var(1, correction=0).mean()) / length**2
    whose = torch.empty_like(order).scatter_(0, order, numbers)
    return _Side(whose, gap, groups.mean(1), looseness)


def coordinates(ruler: Float[Tensor, " mark"], positions: Tensor) -> Tensor:
    """Return positions in units of the marks of a ruler: 1.5 is halfway between marks 1 and 2.

    Before its first and after its last mark, the ruler is continued with its median step.

    >>> coordinates(torch.tensor([10.0, 20.0, 40.0]), torch.tensor([30.0, 15.0, 0.0]))
    tensor([ 1.5000,  0.5000, -0.6667])
    """
    if len(ruler) == 1:
        return torch.zeros_like(positions)
    steps = ruler.diff()
    low = (torch.searchsorted(ruler, positions.contiguous()) - 1).clamp(0, len(steps) - 1)
    inside = low + (positions - ruler[low]) / steps[low]
    typical = steps.quantile(0.5)
    before = (positions - ruler[0]) / typical
    after = len(steps) + (positions - ruler[-1]) / typical
    result = torch.where(positions < ruler[0], before, inside)
    return torch.where(positions > ruler[-1], after, result)


def nearest_cells(
    centres: Float[Tensor, "token 2"], among: Arrangement
) -> tuple[Int64[Tensor, " token"], float]:
    """Return the cell of ``among`` nearest to each centre, and how clear the choice is.

    Returns:
        The cells, and the margin of the least clear choice: 1 if every centre is exactly on the
            middle of a cell, 0 if one is halfway between two.
    """
    margin, indices = 1.0, []
    for axis, ruler in enumerate((among.row_centres, among.col_centres)):
        at = coordinates(ruler, centres[:, axis])
        index = at.round().clamp(0, len(ruler) - 1)
        if len(ruler) > 1:
            margin = min(margin, 1 - 2 * float((at - index).abs().max()))
        indices.append(index.long())
    return indices[0] * among.grid.cols + indices[1], margin


@dataclass(frozen=True)
class Sampling:
    """A convolution or pooling that the model ran: sizes before and after, and cell centres."""

    before: tuple[int, int]
    after: tuple[int, int]
    rows: tuple[float, ...]
    cols: tuple[float, ...]


def snap(
    coarse: Float[Tensor, " cell"], fine: int, samplings: Sequence[tuple[int, Sequence[float]]]
) -> Float[Tensor, " cell"]:
    """Return exact positions of pooled cells along one side, given measured ones.

    Both are in units of the cells that were pooled. By definition, a pooled cell is at the centre
    of its kernel, padding included. At the border this cannot be measured, because padding does not
    respond. So if a convolution or pooling that the model ran agrees with the measured positions,
    its centres are taken. Otherwise the measured positions are rounded to half cells, or kept if
    some are not near a half cell.

    Args:
        coarse: Measured centres of the pooled cells.
        fine: Number of cells that were pooled.
        samplings: For every convolution and pooling that the model ran, the number of cells before
            it and the centres of the cells after it.
    """
    for before, centres in samplings:
        if before != fine or len(centres) != len(coarse):
            continue
        listed = torch.tensor(centres, dtype=torch.float64)
        step = float(listed.diff().abs().median()) if len(listed) > 1 else float(fine)
        most = torch.full_like(listed, max(0.5, 0.25 * step))
        most[0] = most[-1] = max(1.0, 0.5 * step)  # at the border, padding shifts what is measured
        if bool(((listed - coarse).abs() <= most).all()):
            return listed
    halves = (coarse * 2).round() / 2
    return halves if float((halves - coarse).abs().max()) <= 0.2 else coarse


def kernel_sampling(
    before: tuple[int, int],
    after: tuple[int, int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Sampling:
    """Return the sampling of a kernel that moves over a map.

    Args:
        before: Size of the map.
        after: Size of the output.
        kernel: Sides of the kernel.
        stride: Steps of the kernel.
        padding: Padding of the map.
        dilation: Spacing of the kernel.
    """
    sides = [
        tuple(j * s + d * (k - 1) / 2 - p for j in range(n))
        for n, k, s, p, d in zip(after, kernel, stride, padding, dilation)
    ]
    return Sampling(before, after, sides[0], sides[1])


def adaptive_sampling(before: tuple[int, int], after: tuple[int, int]) -> Sampling:
    """Return the sampling of torch's adaptive pooling, whose cells may overlap."""
    sides = [
        tuple(((j * size // n) + math.ceil((j + 1) * size / n) - 1) / 2 for j in range(n))
        for size, n in zip(before, after)
    ]
    return Sampling(before, after, sides[0], sides[1])
