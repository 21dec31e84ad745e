"""Distances between the queries and keys of one layer, computed once and kept for every batch.

Tokens without a place (prefix tokens, padding) are cut off where they are the same in every window
and marked as missing where they are not. Windows that look alike share one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from nearsight.measure.tokens import Layout

MAX_RADIUS = 3
CHUNK = 2**18  # pairs of tokens whose distances are computed at a time
TOLERANCE = 1e-6  # of a patch: coordinates of pooled cells are halves and thirds


class Geometry:
    """Where the placed queries and keys of a layout are, and how far apart.

    ``distances`` is float32 [window, query, key] in patches, with a single window where all are
    alike; the error of float32 is below 1e-7 of a grid diagonal.
    """

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.grid = layout.grid
        self.device = device
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
        return self.points.shape[1]

    @property
    def num_keys(self) -> int:
        return self.cells.shape[1]

    def _offsets(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Row and column offset (key minus query) of all pairs, some queries at a time."""
        step = max(1, CHUNK // (len(self.cells) * self.num_keys))
        for points in self.points.split(step, dim=1):
            offsets = self.cells[:, None] - points[:, :, None]  # [window, query, key, axis]
            yield offsets[..., 0], offsets[..., 1]

    @cached_property
    def distances(self) -> Tensor:
        """Euclidean distance of every pair in patches, float32 [window, query, key]."""
        table = [rows.hypot(cols).float() for rows, cols in self._offsets()]
        return torch.cat(table, dim=1).to(self.device)

    @cached_property
    def rings(self) -> Tensor:
        """Chebyshev distance of every pair, rounded up, int64 [window, query, key]."""
        table = [
            _reach(rows, cols).sub_(TOLERANCE).ceil_().long() for rows, cols in self._offsets()
        ]
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
        """Rings 0 .. max(rows, cols) - 1, and more where the centre of a cell lies outside."""
        last = torch.tensor([self.grid.rows - 1, self.grid.cols - 1])
        low, high = self.image_cells.amin(0), self.image_cells.amax(0)
        reach = torch.maximum(high, last - low).max().sub(TOLERANCE).ceil()
        return max(int(reach) + 1, self.grid.rows, self.grid.cols)

    @cached_property
    def uniform_distance(self) -> float:
        """Mean distance in patches of attention spread evenly over all cells of the image."""
        points = self.grid.coordinates()
        total = 0.0
        for some in points.split(max(1, CHUNK // self.num_cells)):
            rows, cols = (some[:, None] - self.image_cells).unbind(-1)
            total += float(rows.hypot(cols).sum())
        return total / len(points) / self.num_cells

    @cached_property
    def near(self) -> tuple[Tensor, Tensor]:
        """Slots for the keys near every query: which key is in it, and 1 if there is one (else 0).

        Both [window, query, slot], int64 and float32; ``near_counts`` says what a slot counts for.
        """
        found = [self._slots(*offsets) for offsets in self._offsets()]
        index, taken = (torch.cat(parts, dim=1).to(self.device) for parts in zip(*found))
        return index, taken

    @cached_property
    def near_counts(self) -> Tensor:
        """Whether a slot counts as the own key, and within radius 1, 2, 3: float64 [slot, 4].

        The first slot is the own key (the nearest cell), for self-mass alone; the others hold the
        keys of ring 0 and 1, of ring 2 and of ring 3.
        """
        rings = [0] + [radius for radius, size in enumerate(self._sizes, 1) for _ in range(size)]
        counts = [
            [float(ring == 0), *(float(0 < ring <= radius) for radius in range(1, MAX_RADIUS + 1))]
            for ring in rings
        ]
        return torch.tensor(counts, dtype=torch.float64)

    @cached_property
    def _sizes(self) -> list[int]:
        """The most keys that a query has in ring 0 or 1, in ring 2, in ring 3."""
        most = [0] * MAX_RADIUS
        for rows, cols in self._offsets():
            ring = self._ring(rows, cols)
            found = [int((ring == radius).sum(-1).max()) for radius in range(1, MAX_RADIUS + 1)]
            most = [max(pair) for pair in zip(most, found)]
        return most

    def _ring(self, rows: Tensor, cols: Tensor) -> Tensor:
        """1, 2, 3 for the keys within that radius and no smaller one, else 0."""
        ring = _reach(rows, cols).sub_(TOLERANCE).ceil_().clamp_(min=1)
        if self.key_missing is not None:
            ring = ring.masked_fill(self.key_missing[:, None].cpu(), 0)
        return ring.masked_fill_(ring > MAX_RADIUS, 0)

    def _slots(self, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
        far, ring = rows.hypot(cols), self._ring(rows, cols)
        if self.key_missing is not None:
            far = far.masked_fill(self.key_missing[:, None].cpu(), float("inf"))
        own = far.argmin(-1, keepdim=True)
        indices, taken = [own], [torch.ones_like(own, dtype=torch.float32)]
        for radius, size in enumerate(self._sizes, 1):
            there, index = (ring == radius).float().topk(size, dim=-1)
            indices.append(index)
            taken.append(there)
        return torch.cat(indices, -1), torch.cat(taken, -1)


def _reach(rows: Tensor, cols: Tensor) -> Tensor:
    """Chebyshev distance."""
    return torch.maximum(rows.abs(), cols.abs())


def _placed(tokens: Tensor) -> slice:
    """The tokens that have a place in some window; they are neighbours in every known model."""
    kept = (tokens >= 0).any(0).nonzero().flatten()
    if not len(kept):
        raise ValueError("expected tokens with a place on the image, got none")
    first, last = int(kept[0]), int(kept[-1])
    return slice(first, last + 1)


def _missing(tokens: Tensor, device: torch.device) -> Tensor | None:
    missing = tokens < 0
    return missing.to(device) if bool(missing.any()) else None


def _alike(points: Tensor, cells: Tensor) -> bool:
    """Whether all windows have the same offsets between queries and keys."""
    corner = points[:, :1]
    moved, moved_cells = points - corner, cells - corner
    return bool((moved == moved[:1]).all()) and bool((moved_cells == moved_cells[:1]).all())
