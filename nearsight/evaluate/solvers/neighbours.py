"""Exact nearest neighbours by inner product, in chunks, over a memory of any size.

The products of a chunk are never sorted whole. Memory vectors are taken in blocks of BLOCK, only
the largest product of every block is kept, and the k blocks with the largest ones are looked into:
the k nearest vectors are in these, because every other block has k vectors before its best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from nearsight.core import UserError

BLOCK = 8  # memory vectors
QUERIES = 1024  # at once
ROWS = 1024  # memory vectors in one product
TOGETHER = 16  # queries whose blocks are looked into at once: they fit into the cache
HELD = 1 << 28  # numbers of the memory that are held at once, in float32: 1 GiB
Progress = Callable[[int, int], None]
Prepare = Callable[[Tensor], Tensor]
Nearness = Literal["product", "cosine", "euclidean"]


def nearest(
    memory: Tensor | np.ndarray,
    queries: Tensor | np.ndarray,
    k: int,
    *,
    by: Nearness = "product",
    prepare: Prepare | None = None,
    rows: Int[np.ndarray, " row"] | None = None,
    held: int = HELD,
    progress: Progress | None = None,
) -> tuple[Float[Tensor, "query k"], Int[Tensor, "query k"]]:
    """Return the k largest inner products of every query with the memory, and where they are.

    Products are in float32 and sorted, the largest first. Memory and queries may be memory maps in
    half precision; at most ``held`` numbers of the memory are in RAM at once.

    Args:
        memory: [memory, width].
        queries: [query, width].
        k: How many neighbours.
        by: The inner product of vectors as they are (``product``) or divided by their length
            (``cosine``), or the distance: then the result is the product less half the squared
            length of the memory vector, which is largest where the distance is smallest.
        prepare: Changes vectors of both in float32 before that, such as a scale.
        rows: Which vectors of the memory to take, in ascending order; None for all.
        held: How many numbers of the memory to hold at once.
        progress: Called with the queries done and the queries in all, of all passes.

    Raises:
        UserError: The memory has fewer than k vectors.

    >>> memory = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> products, found = nearest(memory, torch.tensor([[0.0, 2.0]]), 2)
    >>> products.tolist(), found.tolist()
    ([[2.0, 1.600000023841858]], [[1, 2]])
    """
    width = memory.shape[1]
    num = len(memory) if rows is None else len(rows)
    if num < k:
        raise UserError(f"{k} neighbours were asked for, but the memory has only {num} vectors")
    at_once = max(k, held // width // BLOCK * BLOCK)
    starts = list(range(0, num, at_once))
    best = torch.full((len(queries), k), -torch.inf)
    where = torch.zeros(len(queries), k, dtype=torch.int64)
    total, done = len(starts) * len(queries), 0
    for start in starts:
        some = slice(start, start + at_once)
        part = _floats(memory[some if rows is None else rows[some]], by, prepare)
        if by == "euclidean":
            part = torch.cat([part, -part.square().sum(-1, keepdim=True) / 2], 1)
        blocks = _blocks(part)
        for first in range(0, len(queries), QUERIES):
            to = slice(first, first + QUERIES)
            asked = _floats(queries[to], by, prepare)
            if by == "euclidean":
                asked = F.pad(asked, (0, 1), value=1.0)
            values, indices = _nearest_of(blocks, len(part), asked, min(k, len(part)))
            values = torch.cat([best[to], values], 1)
            indices = torch.cat([where[to], indices + start], 1)
            best[to], order = values.topk(k, -1)
            where[to] = indices.gather(1, order)
            done += len(asked)
            if progress:
                progress(done, total)
    return best, where if rows is None else torch.from_numpy(rows)[where]


def _floats(
    vectors: Tensor | np.ndarray, by: Nearness, prepare: Prepare | None
) -> Float[Tensor, "vector width"]:
    if isinstance(vectors, np.ndarray):
        vectors = torch.from_numpy(np.array(vectors, np.float32))
    vectors = vectors.float()
    if prepare is not None:
        vectors = prepare(vectors)
    return F.normalize(vectors, dim=-1) if by == "cosine" else vectors.contiguous()


def _blocks(memory: Float[Tensor, "memory width"]) -> Float[Tensor, "block member width"]:
    """The memory in whole blocks, filled up with zeros."""
    return F.pad(memory, (0, 0, 0, -len(memory) % BLOCK)).unflatten(0, (-1, BLOCK))


def _nearest_of(
    blocks: Float[Tensor, "block member width"],
    num: int,
    queries: Float[Tensor, "query width"],
    k: int,
) -> tuple[Float[Tensor, "query k"], Int[Tensor, "query k"]]:
    """The k nearest of the first ``num`` vectors in the blocks."""
    largest = torch.empty(len(blocks), len(queries))
    flat, asked = blocks.flatten(0, 1), queries.t().contiguous()
    products = torch.empty(min(ROWS, len(flat)), len(queries))
    for start in range(0, len(flat), ROWS):
        part = flat[start : start + ROWS]
        out = products[: len(part)]
        torch.mm(part, asked, out=out)  # [memory, query]
        if start + len(part) > num:
            out[num - start :] = -torch.inf  # what only fills up the last block
        first = start // BLOCK
        into = largest[first : first + len(part) // BLOCK]
        torch.amax(out.unflatten(0, (-1, BLOCK)), 1, out=into)
    chosen = largest.t().contiguous().topk(min(k, len(blocks)), -1).indices  # [query, block]
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK)).flatten(1)  # [query, member]
    exact = torch.empty(places.shape)
    for start in range(0, len(queries), TOGETHER):
        to = slice(start, start + TOGETHER)
        members = blocks[chosen[to]].flatten(1, 2)  # [query, member, width]
        torch.bmm(members, queries[to, :, None], out=exact[to, :, None])
    exact.masked_fill_(places >= num, -torch.inf)
    values, order = exact.topk(k, -1)
    return values, places.gather(1, order)
