"""Sums over the query rows of a block, one function per kind of sum.

Each takes ``Rows`` and gives [image, head, ...] in float64, or [image, ...] where it compares the
heads of a layer. Several metrics may share a sum.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.rows.blocks import Rows, RowSums, wide


def distance_sums(rows: Rows | RowSums) -> Float[Tensor, "image head"]:
    """Attended distance in patches."""
    return rows.distance_sums


def near_sums(rows: Rows | RowSums) -> Float[Tensor, "image head 4"]:
    """Mass on the own patch, and within radius 1, 2, 3."""
    return rows.near_sums


def entropy_sums(rows: Rows | RowSums) -> Float[Tensor, "image head"]:
    """Entropies of the rows in nats."""
    return rows.entropy_sums


def sink_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Mass on keys without a place."""
    assert rows.sink is not None
    return wide(rows.sink.sum((1, 3)))


def kept_distance_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Attended distance in patches, where rows are not renormalised."""
    assert rows.sink is not None
    table = rows.geometry.distances[:, None, rows.span].to(rows.weights.dtype)
    attended = (rows.weights * table).sum(-1)  # [image, window, head, query]
    return wide(attended.mul_(1 - rows.sink).sum((1, 3)))


def leaving_sums(rows: Rows) -> Float[Tensor, "image head 2"]:
    """Attended distance and mass of the attention that leaves the own patch."""
    own = rows.geometry.near[0][:, None, rows.span, :1]  # [window, 1, query, 1]
    away = rows.weights.scatter(-1, own.expand(*rows.weights.shape[:4], 1), 0.0)
    table = rows.geometry.distances[:, None, rows.span].to(away.dtype)
    mass = wide(away.sum(-1).sum((1, 3)))
    return torch.stack([wide(away.mul_(table).sum(-1).sum((1, 3))), mass], dim=-1)


def ring_sums(rows: Rows) -> Float[Tensor, "image head ring"]:
    """Mass on every Chebyshev ring, those of pooled cells rounded up."""
    rings = rows.geometry.rings[:, None, rows.span].expand(rows.weights.shape)
    empty = rows.weights.new_zeros(*rows.weights.shape[:4], rows.geometry.num_rings)
    return wide(empty.scatter_add_(-1, rings, rows.weights)).sum((1, 3))


def row_offsets(rows: Rows) -> Float[Tensor, "image window head query 4"]:
    """Mass of every row, its offset (down, right), and its squared distance; in patches."""
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
    """Mass, offset (down, right) and squared distance."""
    return row_offsets(rows).sum((1, 3))


def key_sums(rows: Rows) -> Float[Tensor, "image head more"]:
    """Entropies of the rows, then the mass on every key cell of the image."""
    received = wide(rows.weights.sum(3))  # [image, window, head, key]
    images, _, heads, _ = received.shape
    cells = rows.geometry.keys.clamp(min=0).to(received.device)  # [window, key]; missing: mass 0
    masses = received.new_zeros(images, heads, rows.geometry.num_cells)
    masses.index_add_(2, cells.flatten(), received.transpose(1, 2).flatten(2))
    return torch.cat([rows.entropy_sums[..., None], masses], dim=-1)


def pair_sums(rows: Rows) -> Float[Tensor, " image"]:
    """Total variation distance of rows, averaged over all pairs of heads; 0 for a single head."""
    heads = rows.weights.shape[2]
    total = wide(rows.weights.new_zeros(len(rows.weights)))
    for head in range(1, heads):
        apart = rows.weights[:, :, head:] - rows.weights[:, :, head - 1 : head]
        total += wide(apart.abs_().sum(-1).sum((1, 2, 3))) / 2
    return total / max(1, heads * (heads - 1) // 2)
