"""Compute distances between the queries and keys of a layer once and keep them for all batches.

Tokens without a position (prefix tokens, padding) are left out if they are the same ones in every
window, and otherwise marked as missing. If all windows have the same distances, they share one
table.
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

    ``distances`` is [window, query, key] in patches, with a single window if all windows are alike.
    In float32 its error is below 1e-7 grid diagonals. ``near`` lists the keys within ``max_radius``
    patches of each query.

    Args:
        layout: Where the tokens are.
        device: Where the tables are needed.
        dtype: Precision of the distances.
        max_radius: Largest radius, in patches, for which near keys are listed.
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
        self.query_tokens = _placed_tokens(layout.queries)
        self.key_tokens = _placed_tokens(layout.keys)
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
        """Yield positions [window, query, 2] of a few queries at a time, to limit memory."""
        yield from self.points.split(max(1, CHUNK // (len(self.cells) * self.num_keys)), dim=1)

    @cached_property
    def distances(self) -> Tensor:
        """Euclidean distance of every pair in patches, [window, query, key]."""
        table = [_far(points, self.cells).to(self.dtype) for points in self._parts()]
        return torch.cat(table, dim=1).to(self.device)

    @cached_property
    def offset_distances(self) -> Tensor | None:
        """Distances by difference in rows (0, 1, ...) and in columns (..., -1, 0, 1, ...), float32.

        It is None unless both queries and keys are the patches of the grid, row by row.
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
        """Number of rings: max(rows, cols), or more if the centre of a cell is off the grid."""
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
        """The keys near every query: their indices, and 1 for each slot that holds a key, else 0.

        Both are [window, query, slot], int64 and float. Queries with fewer near keys than others
        have unused slots. ``near_counts`` tells which masses a slot counts for.
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
        """For each slot, whether it counts for self-mass and for radius 1, 2, 3: float64 [slot, 4].

        The first slot is the own key (the nearest cell) and counts for self-mass only. It is listed
        again among the others, which hold the keys of rings 0 and 1, of ring 2, of ring 3, ...
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
        """For a few queries at a time: which keys may be near, and the ring of each pair.

        They are [key] and [window, query, key]. The ring is the smallest radius 1, 2, ... that
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
        """Return the key nearest to every point, [window, query, 1].

        Args:
            points: Positions of the queries.
            keys: The keys that are searched first.
        """
        far = self._to_keys(points, keys)
        if not len(keys) or far.amin(-1).max() > self.max_radius:  # another key may be nearer
            keys = torch.arange(self.num_keys)
            far = self._to_keys(points, keys)
        return keys[far.argmin(-1, keepdim=True)]

    def _to_keys(self, points: Tensor, keys: Tensor) -> Tensor:
        """Return distances from points to keys, infinite for missing keys."""
        far = _far(points, self.cells[:, keys])
        if self.key_missing is None:
            return far
        return far.masked_fill_(self.key_missing[:, None, keys].cpu(), float("inf"))

    def _slots(self, points: Tensor, keys: Tensor, rings: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``near`` for a few queries, given the keys that may be near and their rings."""
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


def _placed_tokens(tokens: Tensor) -> slice:
    """Return the range of tokens that have a position in some window.

    In every known model they are adjacent, so a slice is enough.
    """
    kept = (tokens >= 0).any(0).nonzero().flatten()
    if not len(kept):
        raise UserError(
            "no token of this layer has a position on the image, so it has no distances to measure"
        )
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
