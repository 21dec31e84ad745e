"""Attention between patches, a block of rows at a time.

Dropping the prefix columns and renormalising is the softmax over patch keys alone, so the weights
are recomputed from the queries and keys of the patches only, and nothing larger than a block is
made, whatever the number of tokens. Weights are float32 (float64 for a float64 model); the entropy
of a row is its logsumexp minus its mean logit, which needs no logarithm of the weights. Where both
are large, as in a row that a mask hides entirely by a large number, their difference would drown in
rounding; the largest logit is subtracted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.rows.unfold import RowBlock, Unfolded

SMALLEST = 1e-30  # weight whose logarithm is still exact in float32
LARGE = 64.0  # logsumexp from which a row's logits are counted from the largest one


@dataclass(frozen=True)
class Rows:
    """Some query rows of every window, of some images and heads of a layer.

    Each row of ``weights`` sums to one over the keys with a place; rows of queries without a place
    are 0. ``entropies`` are in nats. ``sink``, where asked for, is the share that a row gave to
    keys without a place before they were dropped.
    """

    weights: Float[Tensor, "image window head query key"]
    entropies: Float[Tensor, "image window head query"]
    sink: Float[Tensor, "image window head query"] | None
    geometry: Geometry
    block: RowBlock
    span: slice  # of the geometry's queries
    scratch: Tensor  # memory of the shape of weights, for anything


@dataclass(frozen=True)
class RowSums:
    """What all rows of a layer sum up to, from code that does not keep the rows."""

    distance_sums: Float[Tensor, "image head"]
    near_sums: Float[Tensor, "image head 4"]
    entropy_sums: Float[Tensor, "image head"]


def wide(x: Tensor) -> Tensor:
    """In float64; on the CPU where the device has none (MPS)."""
    return x.cpu().double() if x.device.type == "mps" else x.double()


def attention_rows(
    tensors: Unfolded,
    geometry: Geometry,
    with_sink: bool = False,
    whole_layers: bool = False,
    heads: slice = slice(None),
) -> Iterator[Rows]:
    """All rows of a layer in blocks. A block is overwritten by the next: use it, then let it go.

    ``whole_layers`` keeps all heads of an image in one block; ``heads`` takes some heads only.
    """
    queries, first = geometry.query_tokens, geometry.query_tokens.start
    num_keys = tensors.num_keys if with_sink else geometry.num_keys
    for block in tensors.blocks(tensors.num_images, queries, num_keys, whole_layers, heads):
        span = slice(block.queries.start - first, block.queries.stop - first)
        make = _recomputed if tensors.is_softmax else _made
        weights, entropies, sink = make(tensors, geometry, block, with_sink)
        if geometry.query_missing is not None:
            gone = geometry.query_missing[:, None, span]
            weights = weights.masked_fill(gone[..., None], 0.0)
            entropies = entropies.masked_fill(gone, 0.0)
            sink = None if sink is None else sink.masked_fill(gone, 0.0)
        scratch = tensors.buffers.take("logits", tuple(weights.shape), like=weights)
        yield Rows(weights, entropies, sink, geometry, block, span, scratch)


def _recomputed(
    tensors: Unfolded, geometry: Geometry, block: RowBlock, with_sink: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Weights, entropies and sink of a fused call; NaN where every key of a row is hidden."""
    logits = tensors.logits(block, geometry.key_tokens)
    if geometry.key_missing is not None:
        logits.masked_fill_(geometry.key_missing[:, None, None], -torch.inf)
    weights = tensors.buffers.take("weights", logits.shape, like=logits)
    torch.softmax(logits, -1, out=weights)
    lowest = torch.finfo(logits.dtype).min  # in place of -inf, so that times a weight of 0 it is 0
    if tensors.mask is not None or geometry.key_missing is not None:
        logits.clamp_(min=lowest)
    total, top = _logsumexp(logits, weights), None
    if not bool((total.abs() <= LARGE).all()):
        top = logits.amax(-1, keepdim=True)
        total = _logsumexp(logits.sub_(top).clamp_(min=lowest), weights)
    entropies = total - logits.mul_(weights).sum(-1)
    if not with_sink:
        return weights, entropies, None
    everything = tensors.logits(block)
    if top is not None:
        everything.sub_(top)
    placed = (total - everything.logsumexp(-1)).clamp(max=0)  # logarithm of their share
    return weights, entropies, -torch.expm1(placed)


def _logsumexp(logits: Tensor, weights: Tensor) -> Tensor:
    """logsumexp of the rows of logits, whose softmax is known: logit minus log weight of any key.

    The first key will do unless a weight is too small to have a logarithm; then the largest.
    """
    logit, weight = logits[..., 0], weights[..., 0]
    if bool((weight < SMALLEST).any()):
        logit, weight = logits.amax(-1), weights.amax(-1)
    return logit - weight.log()


def _made(
    tensors: Unfolded, geometry: Geometry, block: RowBlock, with_sink: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same of weights that the model made itself, or mixed from content and position."""
    rows = tensors.weights(block)
    weights = rows[..., geometry.key_tokens]
    if geometry.key_missing is not None:
        weights = weights.masked_fill(geometry.key_missing[:, None, None], 0.0)
    placed = weights.sum(-1)
    weights = weights / placed[..., None]
    sink = (rows.sum(-1) - placed).clamp(min=0) if with_sink else None
    return weights, torch.special.entr(weights).sum(-1), sink
