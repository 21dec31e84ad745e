"""Locate tokens in models whose keys (and queries) are pooled.

A pooled cell is at the centre of the positions that its kernel covers, padding included: with
kernel k, stride s and padding p, cell j is at ``j s + (k - 1) / 2 - p``. A kernel of 2 with stride
2 has its centre between patches. A kernel of 3 with padding 1 is centred on every s-th patch, which
agrees with MViT's own relative positions. Cells are given in units of the queries, pooled or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout.tokens import Layout, number_tokens, row_by_row
from nearsight.models.layers import Grid


def kernel_centres(size: int, kernel: int, stride: int, padding: int) -> Float[Tensor, " cell"]:
    """Return the centres of pooled cells along one side of a map.

    Args:
        size: Number of patches along this side.
        kernel: Side of the kernel in patches.
        stride: Step of the kernel.
        padding: Number of patches that pad each end.

    >>> kernel_centres(7, kernel=2, stride=2, padding=0)
    tensor([0.5000, 2.5000, 4.5000], dtype=torch.float64)
    >>> kernel_centres(7, kernel=3, stride=2, padding=1)
    tensor([0., 2., 4., 6.], dtype=torch.float64)
    """
    num_cells = (size + 2 * padding - kernel) // stride + 1
    return torch.arange(num_cells, dtype=torch.float64) * stride + (kernel - 1) / 2 - padding


def adaptive_centres(size: int, num_cells: int) -> Float[Tensor, " cell"]:
    """Return the centres of the cells of torch's adaptive pooling, which may overlap.

    >>> adaptive_centres(7, 3)
    tensor([1., 3., 5.], dtype=torch.float64)
    """
    cells = torch.arange(num_cells, dtype=torch.float64)
    first = (cells * size / num_cells).floor()
    last = ((cells + 1) * size / num_cells).ceil() - 1
    return (first + last) / 2


@dataclass(frozen=True)
class Cells:
    """Rows and columns of pooled cells in patches of the map, and the step from cell to cell."""

    rows: Float[Tensor, " row"]
    cols: Float[Tensor, " col"]
    step: tuple[int, int] = (1, 1)

    @classmethod
    def of(cls, pool: Any, size: Sequence[int]) -> Cells:
        """Return the cells of a pooling or convolution over a map of this size.

        If ``pool`` is None, every patch is a cell.
        """
        if pool is None:
            kernel, stride, padding = (1, 1), (1, 1), (0, 0)
        else:
            kernel, stride, padding = map(_pair, (pool.kernel_size, pool.stride, pool.padding))
        rows, cols = (kernel_centres(*each) for each in zip(size, kernel, stride, padding))
        return cls(rows, cols, stride)

    def layout(self, keys: Cells, num_prefix: int) -> Layout:
        """Return the layout of queries at these cells and keys at others, after prefix tokens."""
        grid = Grid(len(self.rows), len(self.cols))
        rows = (keys.rows - self.rows[0]) / self.step[0]
        cols = (keys.cols - self.cols[0]) / self.step[1]
        cells = torch.cartesian_prod(rows, cols).reshape(-1, 2)
        queries = row_by_row(grid, num_prefix).queries
        return Layout(grid, queries, number_tokens(num_prefix, len(cells)), cells)


def _pair(value: Any) -> tuple[int, int]:
    """Return a size given as one number or as two as two numbers."""
    first, second = (value, value) if isinstance(value, int) else value
    return first, second


def mvit(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in timm's MViTv2, whose attention may pool queries and keys separately."""
    attention: Any = place.module
    size = place.inputs[1]
    queries, keys = Cells.of(attention.pool_q, size), Cells.of(attention.pool_k, size)
    return queries.layout(keys, num_prefix=int(attention.has_cls_token))


def pvt(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in timm's PVTv2, whose keys are reduced by a convolution, or to 7x7 cells."""
    attention: Any = place.module
    size = place.inputs[1]
    if attention.pool is None:
        keys = Cells.of(attention.sr, size)
    else:
        cells = _pair(attention.pool.output_size)
        rows, cols = (adaptive_centres(*each) for each in zip(size, cells))
        keys = Cells(rows, cols)
    return Cells.of(None, size).layout(keys, num_prefix=0)
