"""Bring the tensors of an attention call into one order and cut them into blocks.

Models store their windows in different ways. Here all tensors are [image, window, head, token,
width]. A block covers some images, heads and queries and is small enough to stay in the processor's
cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nearsight.measure.capture import AttentionCall
from nearsight.measure.layout import Fold, Layout

BLOCK_SIZES = {"cpu": 2**20}  # attention weights per block: 4 MB in float32
LARGE_BLOCK = 2**22  # for devices on which starting a kernel costs more time than the cache saves


@dataclass(frozen=True)
class RowBlock:
    """Some images, heads and queries (of every window) of a layer."""

    images: slice
    heads: slice
    queries: slice


class Buffers:
    """Memory for the weights and logits of one block, reused by the next block."""

    def __init__(self) -> None:
        self._memory: dict[str, Tensor] = {}
        self._views: dict[tuple, Tensor] = {}

    def take(self, name: str, sizes: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a tensor of ``sizes`` in the memory called ``name``, overwriting what it held."""
        key = name, sizes, like.dtype, like.device
        if key not in self._views:
            num = math.prod(sizes)
            memory = self._memory.get(name)
            if memory is None or memory.numel() < num or (memory.dtype, memory.device) != key[2:]:
                self._views = {x: view for x, view in self._views.items() if x[0] != name}
                self._memory[name] = memory = like.new_empty(num)
            self._views[key] = memory[:num].view(sizes)
        return self._views[key]


class Unfolded:
    """The tensors of an attention call as [image, window, head, token, width].

    They are the values, the output, and either queries and keys (of fused attention) or the weights
    that the model computed itself (``made``).

    Args:
        call: The attention call.
        layout: Where its tokens are on the image.
        buffers: Memory for the weights and logits of blocks.
    """

    def __init__(self, call: AttentionCall, layout: Layout, buffers: Buffers) -> None:
        self.num_windows = len(layout.queries)
        self._windows = layout.windows
        self._leading = call.sizes[:-2]
        self.scale = call.scale
        self.queries = None if call.queries is None else self.unfold(call.queries)
        self.keys = None if call.keys is None else self.unfold(call.keys)
        self.made = None if call.weights_made is None else self.unfold(call.weights_made)
        self.mixture = call.mixture
        self.mask = None if call.mask is None else self.unfold(call.mask.expand(call.sizes))
        self.values, self.output = self.unfold(call.values), self.unfold(call.output)
        given = self.queries if self.made is None else self.made
        assert given is not None
        self.num_images, _, self.num_heads = given.shape[:3]
        self.num_queries, self.num_keys = call.sizes[-2:]
        self.device = given.device
        self.dtype = torch.promote_types(given.dtype, torch.float32)
        self.buffers = buffers

    def unfold(self, x: Tensor) -> Tensor:
        """Return a tensor of the call as [image, window, head, token, ...]."""
        if isinstance(self._windows, Fold):
            return self._windows.unfold(x.expand(*self._leading, *x.shape[-2:]))
        if self._windows == "inner":
            return x.transpose(1, 2)
        return x.unflatten(0, (-1, self.num_windows))

    def logits(self, block: RowBlock, keys: slice = slice(None)) -> Tensor:
        """Return scale q k^T + mask as [image, window, head, query, key].

        The logit of a key that a boolean mask hides is -inf. The next call overwrites the memory of
        the result.
        """
        assert self.queries is not None
        assert self.keys is not None
        q = self.queries[block.images, :, block.heads, block.queries].to(self.dtype)
        k = self.keys[block.images, :, block.heads, keys].to(self.dtype)
        logits = self.buffers.take("logits", (*q.shape[:-1], k.shape[-2]), like=q)
        flat, pairs = logits.flatten(0, 2), (q.flatten(0, 2), k.flatten(0, 2).mT)
        torch.baddbmm(flat, *pairs, beta=0, alpha=self.scale, out=flat)
        if self.mask is not None:
            mask = self.mask[block.images, :, block.heads, block.queries, keys]
            if mask.dtype == torch.bool:
                logits.masked_fill_(~mask, -torch.inf)
            else:
                logits.add_(mask)
        return logits

    def weights(self, block: RowBlock) -> Tensor:
        """Return the attention of a block over all tokens, [image, window, head, query, key]."""
        if self.made is not None:
            return self.made[block.images, :, block.heads, block.queries].to(self.dtype)
        content = self.logits(block).softmax(-1)
        if self.mixture is None:
            return content
        share = self.mixture.share[block.heads, None, None].to(self.dtype)
        rows = self.mixture.rows(block.heads, block.queries).to(self.dtype)
        return content.mul_(1 - share).add_(share * rows)

    @property
    def is_softmax(self) -> bool:
        """Whether the weights are a softmax of logits that can be recomputed."""
        return self.made is None and self.mixture is None

    def blocks(
        self,
        num_images: int,
        queries: slice,
        num_keys: int,
        whole_layers: bool = False,
        of_heads: slice = slice(None),
    ) -> Iterator[RowBlock]:
        """Yield blocks that cover the first ``num_images`` images.

        Args:
            num_images: How many images to cover.
            queries: Which queries to cover. If the slice has a step, so do the blocks, which then
                span more queries, so that they have as many rows as without it.
            num_keys: Number of keys per row; the more keys, the fewer rows in a block.
            whole_layers: Keep all heads of an image in one block.
            of_heads: Cover these heads only.
        """
        size = BLOCK_SIZES.get(self.device.type, LARGE_BLOCK)
        every = queries.step or 1
        num_queries = len(range(queries.start, queries.stop, every))
        per_query = self.num_windows * num_keys
        wanted = range(self.num_heads)[of_heads]
        images = heads = 1
        if per_query * num_queries * len(wanted) <= size:
            heads, step = len(wanted), num_queries
            images = max(1, size // (per_query * num_queries * heads))
        elif whole_layers:
            heads = len(wanted)
            step = max(1, size // (per_query * heads))
        else:
            step = min(num_queries, max(1, size // per_query))
            heads = max(1, size // (per_query * step))
        for image in range(0, num_images, images):
            for head in range(wanted.start, wanted.stop, heads):
                for query in range(queries.start, queries.stop, step * every):
                    yield RowBlock(
                        slice(image, min(image + images, num_images)),
                        slice(head, min(head + heads, wanted.stop)),
                        slice(query, min(query + step * every, queries.stop), every),
                    )
