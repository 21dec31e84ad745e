"""Find exact nearest neighbours by inner product, in chunks, in a memory of any size.

It would be slow to sort all products of a chunk. Instead memory vectors are divided into blocks of
BLOCK, and only the largest product of each block is kept. The k nearest vectors are in the k blocks
with the largest of these products, because for every other block there are k vectors that are
better than its best one. These k blocks are found in the same way, among groups of GROUP blocks.

On a CPU, products are computed by oneDNN, which on AMD processors takes less than half the time of
MKL (the library behind torch.mm).
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

BLOCK = 8  # memory vectors of a block
GROUP = 8  # blocks of a group
QUERIES = 1024  # queries to search for at once
ROWS = 1024  # memory vectors in one product
TOGETHER = 16  # queries whose blocks are searched at once, because they fit into the cache
HELD = 1 << 28  # most numbers of the memory to keep in RAM, in float32: 1 GiB
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
    half precision.

    Args:
        memory: The vectors to search, [memory, width].
        queries: The vectors to search for, [query, width].
        k: The number of neighbours.
        by: ``product`` is the inner product of the vectors as they are, and ``cosine`` that of the
            vectors divided by their lengths. With ``euclidean`` the result is the product minus
            half the squared length of the memory vector, which is largest where the distance is
            smallest.
        prepare: Applied to all vectors in float32 first, for example a scale.
        rows: The vectors of the memory to use, in ascending order; None for all.
        held: The most numbers of the memory to keep in RAM.
        progress: Called with the number of finished queries and of all queries, over all passes.

    Raises:
        UserError: If the memory has fewer than k vectors.

    >>> memory = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> products, found = nearest(memory, torch.tensor([[0.0, 2.0]]), 2)
    >>> products.tolist(), found.tolist()
    ([[2.0, 1.600000023841858]], [[1, 2]])
    """
    width = memory.shape[1]
    num = len(memory) if rows is None else len(rows)
    if num < k:
        raise UserError(
            f"{k} neighbours were requested, but the memory has only {num} vectors; use fewer "
            "neighbours, or more training images"
        )
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
    """Divide the memory into whole blocks, with zeros after the last vector."""
    return F.pad(memory, (0, 0, 0, -len(memory) % BLOCK)).unflatten(0, (-1, BLOCK))


def _nearest_of(
    blocks: Float[Tensor, "block member width"],
    num: int,
    queries: Float[Tensor, "query width"],
    k: int,
) -> tuple[Float[Tensor, "query k"], Int[Tensor, "query k"]]:
    """Find the k nearest of the first ``num`` vectors in the blocks."""
    largest = torch.empty(len(blocks), len(queries))
    flat, multiply = blocks.flatten(0, 1), _multiplication(queries)
    for start in range(0, len(flat), ROWS):
        part = flat[start : start + ROWS]
        products = multiply(part)  # [memory, query]
        if start + len(part) > num:
            products[num - start :] = -torch.inf  # zeros that only fill up the last block
        first = start // BLOCK
        into = largest[first : first + len(part) // BLOCK]
        torch.amax(products.unflatten(0, (-1, BLOCK)), 1, out=into)
    chosen = _largest_blocks(largest, min(k, len(blocks)))  # [query, block]
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK)).flatten(1)  # [query, member]
    exact = torch.empty(places.shape)
    for start in range(0, len(queries), TOGETHER):
        to = slice(start, start + TOGETHER)
        members = blocks[chosen[to]].flatten(1, 2)  # [query, member, width]
        torch.bmm(members, queries[to, :, None], out=exact[to, :, None])
    exact.masked_fill_(places >= num, -torch.inf)
    values, order = exact.topk(k, -1)
    return values, places.gather(1, order)


def _multiplication(
    queries: Float[Tensor, "query width"],
) -> Callable[[Float[Tensor, "row width"]], Float[Tensor, "row query"]]:
    """Return the function that multiplies rows of the memory with every query, in float32."""
    if torch.backends.mkldnn.is_available():
        weight = queries.to_mkldnn()
        return lambda rows: F.linear(rows.to_mkldnn(), weight).to_dense()
    asked = queries.t().contiguous()
    return lambda rows: rows @ asked


def _largest_blocks(largest: Float[Tensor, "block query"], k: int) -> Int[Tensor, "query k"]:
    """Return the k blocks with the largest products of every query."""
    num_groups = len(largest) // GROUP
    if num_groups <= k:
        return largest.t().contiguous().topk(k, -1).indices
    whole = num_groups * GROUP
    of_groups = largest[:whole].unflatten(0, (-1, GROUP)).amax(1)
    groups = of_groups.t().contiguous().topk(k, -1).indices  # [query, group]
    blocks = (groups[..., None] * GROUP + torch.arange(GROUP)).flatten(1)
    rest = torch.arange(whole, len(largest)).expand(len(blocks), -1)  # blocks outside of groups
    blocks = torch.cat([blocks, rest], 1)
    order = largest.gather(0, blocks.t().contiguous()).t().topk(k, -1).indices
    return blocks.gather(1, order)
