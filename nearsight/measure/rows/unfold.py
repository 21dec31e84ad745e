"""The tensors of an attention call, put in one order and cut into blocks.

Whatever a model does with its windows, here they are [image, window, head, token, width]. A block
covers some images, heads and queries and is small enough to stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nearsight.measure.capture import AttentionCall
from nearsight.measure.layout import Fold, Layout

BLOCK_SIZES = {"cpu": 2**20}  # weights in a block: 4 MB in float32
LARGE_BLOCK = 2**22  # on devices where starting a kernel costs more than the cache saves


@dataclass(frozen=True)
class RowBlock:
    """Some images, heads and queries (of every window) of a layer."""

    images: slice
    heads: slice
    queries: slice


class Buffers:
    """Memory for the weights and logits of one block at a time."""

    def __init__(self) -> None:
        self._memory: dict[str, Tensor] = {}
        self._views: dict[tuple, Tensor] = {}

    def take(self, name: str, sizes: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor of ``sizes`` in the memory of this name; what was there is lost."""
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
    """Queries and keys, or the weights a model made, with values and output, unfolded."""

    def __init__(self, call: AttentionCall, layout: Layout, buffers: Buffers) -> None:
        self.num_windows = len(layout.queries)
        self._windows = layout.windows
        self._leading = call.sizes[:-2]
        self.scale = call.scale
        self.queries = None if call.queries is None else self.unfolded(call.queries)
        self.keys = None if call.keys is None else self.unfolded(call.keys)
        self.made = None if call.weights_made is None else self.unfolded(call.weights_made)
        self.mixture = call.mixture
        self.mask = None if call.mask is None else self.unfolded(call.mask.expand(call.sizes))
        self.values, self.output = self.unfolded(call.values), self.unfolded(call.output)
        shown = self.queries if self.made is None else self.made
        assert shown is not None
        self.num_images, _, self.num_heads = shown.shape[:3]
        self.num_queries, self.num_keys = call.sizes[-2:]
        self.device = shown.device
        self.dtype = torch.promote_types(shown.dtype, torch.float32)
        self.buffers = buffers

    def unfolded(self, x: Tensor) -> Tensor:
        """[image, window, head, token, ...] of a tensor as the call had it."""
        if isinstance(self._windows, Fold):
            return self._windows.unfold(x.expand(*self._leading, *x.shape[-2:]))
        if self._windows == "inner":
            return x.transpose(1, 2)
        return x.unflatten(0, (-1, self.num_windows))

    def logits(self, block: RowBlock, keys: slice = slice(None)) -> Tensor:
        """scale q k^T + mask [image, window, head, query, key], in memory that is used again.

        A key that a boolean mask hides has the logit -inf.
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
        """The attention over all tokens of a block, [image, window, head, query, key]."""
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
        """Whether the weights are the softmax of logits that can be recomputed."""
        return self.made is None and self.mixture is None

    def blocks(
        self,
        num_images: int,
        queries: slice,
        num_keys: int,
        whole_layers: bool = False,
        of_heads: slice = slice(None),
    ) -> Iterator[RowBlock]:
        """Blocks of the first ``num_images`` images; ``whole_layers`` keeps heads together.

        ``queries`` may have a step: blocks then have it too, and as many rows as without it.
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
