"""Compute distances between the queries and keys of a layer once and keep them for all batches.

Tokens without a position (prefix tokens, padding) are cut off if they are the same in every window
and otherwise marked as missing. Windows that are alike share one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearsight.core import UserError
from nearsight.measure.layout.tokens import Layout

MAX_RADIUS = 3  # largest radius of the metric ``radius_mass``
CHUNK = 2**18  # pairs of tokens whose distances are computed at a time
TOLERANCE = 1e-6  # in patches; coordinates of pooled cells are multiples of 1/2 or 1/3


class Geometry:
    """Positions of, and distances between, the queries and keys of a layout.

    ``distances`` is [window, query, key] in patches, with a single window if all are alike; the
    error of float32 is below 1e-7 of a grid diagonal. ``near`` keys are those within ``max_radius``
    patches.

    Args:
        layout: Where the tokens are.
        device: Device of the tables.
        dtype: Precision of the distances.
        max_radius: Largest radius for which near keys are listed.
    """

    def __init__(
        self,
        layout: Layout,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        max_radius: int = MAX_RADIUS,
    ) -> None:
        self.grid = layout.grid
        self.device = device
        self.dtype = dtype
        self.max_radius = max_radius
        self.num_windows = len(layout.queries)
        self.query_tokens = _placed(layout.queries)
        self.key_tokens = _placed(layout.keys)
        queries = layout.queries[:, self.query_tokens]
        keys = layout.keys[:, self.key_tokens]
        self.query_missing = _missing(queries, device)  # bool [window, query] or None
        self.key_missing = _missing(keys, device)
        self.keys = keys.to(device)
        self.image_cells = layout.cells  # float64 [cell, 2], of all windows
        self.num_cells = len(layout.cells)
        points = layout.grid.coordinates()[queries.clamp(min=0)]
        cells = layout.cells[keys.clamp(min=0)]
        alike = (self.query_missing is None and self.key_missing is None) and _alike(points, cells)
        self.points = points[:1] if alike else points  # float64 [window, query, 2]
        self.cells = cells[:1] if alike else cells  # float64 [window, key, 2]

    @property
    def num_queries(self) -> int:
        """Number of queries of a window that have a position in some window."""
        return self.points.shape[1]

    @property
    def num_keys(self) -> int:
        """Number of keys of a window that have a position in some window."""
        return self.cells.shape[1]

    def _parts(self) -> Iterator[Tensor]:
        """Yield positions [window, query, 2] of a few queries at a time, to limit the pairs."""
        yield from self.points.split(max(1, CHUNK // (len(self.cells) * self.num_keys)), dim=1)

    @cached_property
    def distances(self) -> Tensor:
        """Euclidean distance of every pair in patches, [window, query, key]."""
        table = [_far(points, self.cells).to(self.dtype) for points in self._parts()]
        return torch.cat(table, dim=1).to(self.device)

    @cached_property
    def offset_distances(self) -> Tensor | None:
        """Distances by difference in rows and in columns (left to right), float32 [row, column].

        It is None unless the queries and the keys are the patches row by row.
        """
        patches = self.grid.coordinates()[None]
        if not (torch.equal(self.points, patches) and torch.equal(self.cells, patches)):
            return None
        columns = torch.arange(1 - self.grid.cols, self.grid.cols).double()
        rows = torch.arange(self.grid.rows).double()[:, None]
        return rows.hypot(columns).float().to(self.device)

    @cached_property
    def rings(self) -> Tensor:
        """Chebyshev distance of every pair, rounded up, int64 [window, query, key]."""
        table = [_ring(points, self.cells).long() for points in self._parts()]
        return torch.cat(table, dim=1).to(self.device)

    @cached_property
    def uniform_offsets(self) -> Tensor:
        """Mean offset of attention spread evenly over the keys of a window, [window, query, 2]."""
        seen = torch.ones(self.cells.shape[:2], dtype=torch.float64)
        if self.key_missing is not None:
            seen = (~self.key_missing).cpu().double()
        middles = (self.cells * seen[..., None]).sum(1) / seen.sum(1, keepdim=True).clamp(min=1)
        return middles[:, None] - self.points

    @cached_property
    def num_rings(self) -> int:
        """Number of rings: max(rows, cols), and more if the centre of a cell is off the grid."""
        last = torch.tensor([self.grid.rows - 1, self.grid.cols - 1])
        low, high = self.image_cells.amin(0), self.image_cells.amax(0)
        reach = torch.maximum(high, last - low).max().sub(TOLERANCE).ceil()
        return max(int(reach) + 1, self.grid.rows, self.grid.cols)

    @cached_property
    def uniform_distance(self) -> float:
        """Mean distance in patches of attention spread evenly over all cells of the image."""
        points = self.grid.coordinates()
        parts = points.split(max(1, CHUNK // self.num_cells))
        total = sum(float(_far(some, self.image_cells).sum()) for some in parts)
        return total / len(points) / self.num_cells

    @cached_property
    def near(self) -> tuple[Tensor, Tensor]:
        """The keys near every query, in slots: the key's index, and 1 if the slot is used, else 0.

        Both are [window, query, slot], int64 and float. ``near_counts`` tells what a slot counts
        for.
        """
        parts = zip(self._parts(), self._neighbours)
        slots = [self._slots(points, *neighbours) for points, neighbours in parts]
        index, taken = (torch.cat(each, dim=1).to(self.device) for each in zip(*slots))
        return index, taken

    @cached_property
    def own_at_zero(self) -> bool:
        """Whether the own (nearest) key of every query is at the query's position."""
        own = self.near[0][..., :1].cpu()  # [window, query, 1]
        far = self.cells.gather(1, own.expand(*own.shape[:2], 2)) - self.points
        if self.query_missing is not None:
            far = far.masked_fill(self.query_missing.cpu()[..., None], 0.0)
        return bool((far.abs() < TOLERANCE).all())

    @cached_property
    def near_counts(self) -> Tensor:
        """Whether a slot counts as the own key, and within radius 1, 2, ...: float64 [slot, 4].

        The first slot is the own key (the nearest cell) and counts for self-mass only. The others
        hold the keys of rings 0 and 1, of ring 2, of ring 3, ...
        """
        rings = [0] + [radius for radius, size in enumerate(self._sizes, 1) for _ in range(size)]
        counts = [
            [
                float(ring == 0),
                *(float(0 < ring <= radius) for radius in range(1, self.max_radius + 1)),
            ]
            for ring in rings
        ]
        return torch.tensor(counts, dtype=torch.float64)

    @cached_property
    def _sizes(self) -> list[int]:
        """The largest number of keys of a query in rings 0 and 1, in ring 2, in ring 3, ..."""
        return [
            max(int((rings == radius).sum(-1).max()) for _, rings in self._neighbours)
            for radius in range(1, self.max_radius + 1)
        ]

    @cached_property
    def _neighbours(self) -> list[tuple[Tensor, Tensor]]:
        """For some queries at a time: which keys may be near, and the ring of each.

        The pair is [key] and [window, query, key]. A ring is the smallest radius 1, 2, ... that
        contains the key, or 0 if none does.
        """
        neighbours = []
        for points in self._parts():
            low, high = points.amin((0, 1)) - self.max_radius, points.amax((0, 1)) + self.max_radius
            around = (self.cells >= low - TOLERANCE) & (self.cells <= high + TOLERANCE)
            keys = around.all(-1).any(0).nonzero().flatten()
            rings = _ring(points, self.cells[:, keys]).clamp_(min=1)
            if self.key_missing is not None:
                rings.masked_fill_(self.key_missing[:, None, keys].cpu(), 0)
            neighbours.append((keys, rings.masked_fill_(rings > self.max_radius, 0)))
        return neighbours

    def _nearest(self, points: Tensor, keys: Tensor) -> Tensor:
        """Return the key nearest to every point, [window, query, 1]; ``keys`` are likely ones."""
        far = self._to_keys(points, keys)
        if not len(keys) or far.amin(-1).max() > self.max_radius:  # another key may be nearer
            keys = torch.arange(self.num_keys)
            far = self._to_keys(points, keys)
        return keys[far.argmin(-1, keepdim=True)]

    def _to_keys(self, points: Tensor, keys: Tensor) -> Tensor:
        """Return distances, which are infinite for missing keys."""
        far = _far(points, self.cells[:, keys])
        if self.key_missing is None:
            return far
        return far.masked_fill_(self.key_missing[:, None, keys].cpu(), float("inf"))

    def _slots(self, points: Tensor, keys: Tensor, rings: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``near`` for some queries."""
        own = self._nearest(points, keys)
        indices, taken = [own], [torch.ones_like(own, dtype=torch.float32)]
        for radius, size in enumerate(self._sizes, 1):
            there, index = (rings == radius).float().topk(min(size, len(keys)), dim=-1)
            empty = 0, size - index.shape[-1]
            indices.append(pad(keys[index], empty))
            taken.append(pad(there, empty))
        return torch.cat(indices, -1), torch.cat(taken, -1)


def _offsets(points: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns from every point to every cell, [..., point, cell]."""
    rows, cols = (cells[..., None, :, axis] - points[..., :, None, axis] for axis in range(2))
    return rows, cols


def _far(points: Tensor, cells: Tensor) -> Tensor:
    """Return Euclidean distances."""
    rows, cols = _offsets(points, cells)
    return rows.square_().add_(cols.square_()).sqrt_()


def _ring(points: Tensor, cells: Tensor) -> Tensor:
    """Return Chebyshev distances, rounded up."""
    rows, cols = _offsets(points, cells)
    return torch.maximum(rows.abs_(), cols.abs_()).sub_(TOLERANCE).ceil_()


def _placed(tokens: Tensor) -> slice:
    """Return the tokens that have a position in some window.

    They are adjacent in every known model.
    """
    kept = (tokens >= 0).any(0).nonzero().flatten()
    if not len(kept):
        raise UserError("no token of this layer has a position on the image")
    first, last = int(kept[0]), int(kept[-1])
    return slice(first, last + 1)


def _missing(tokens: Tensor, device: torch.device) -> Tensor | None:
    """Return which tokens have no position, or None if all have one."""
    missing = tokens < 0
    return missing.to(device) if bool(missing.any()) else None


def _alike(points: Tensor, cells: Tensor) -> bool:
    """Return whether all windows have the same offsets between queries and keys."""
    corner = points[:, :1]
    moved, moved_cells = points - corner, cells - corner
    return bool((moved == moved[:1]).all()) and bool((moved_cells == moved_cells[:1]).all())
