"""Recompute the attention between patches, one block of query rows at a time.

To drop the prefix columns and renormalise is the same as to take the softmax over the patch keys
alone. So the weights are recomputed from the queries and keys of the patches only, and no tensor is
larger than a block, whatever the number of tokens. Weights are float32 (float64 in a float64
model).

The entropy of a row is its logsumexp minus its mean logit, which needs no logarithm of the weights.
If both are large (a mask may hide a whole row by adding a large negative number), their difference
would be lost in rounding, so the largest logit is subtracted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.rows.unfold import RowBlock, Unfolded

SMALLEST = 1e-30  # smallest weight whose logarithm is accurate enough in float32
LARGE = 64.0  # above this logsumexp, the largest logit is subtracted from a row first


@dataclass(frozen=True)
class Rows:
    """Attention weights of some query rows of every window, of some images and heads of a layer.

    Each row of ``weights`` sums to one over the keys that have a position on the image. Rows of
    queries without a position are 0. ``entropies`` are in nats. ``sink`` is the share of its
    attention that a row gave to keys without a position (prefix tokens, padding) before they were
    dropped; it is None unless it was requested.
    """

    weights: Float[Tensor, "image window head query key"]
    entropies: Float[Tensor, "image window head query"]
    sink: Float[Tensor, "image window head query"] | None
    geometry: Geometry
    block: RowBlock
    span: slice  # the queries of the geometry that these rows belong to
    scratch: Tensor  # memory of the shape of ``weights`` that a metric may overwrite


@dataclass(frozen=True)
class RowSums:
    """Sums over all rows of a layer, computed by compiled code that does not store the rows."""

    distance_sums: Float[Tensor, "image head"]
    near_sums: Float[Tensor, "image head 4"]
    entropy_sums: Float[Tensor, "image head"]


def wide(x: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device has no float64 (MPS)."""
    return x.cpu().double() if x.device.type == "mps" else x.double()


def attention_rows(
    tensors: Unfolded,
    geometry: Geometry,
    with_sink: bool = False,
    whole_layers: bool = False,
    heads: slice = slice(None),
) -> Iterator[Rows]:
    """Yield all attention rows of a layer in blocks.

    All blocks share the same memory, so use a block before you ask for the next one.

    Args:
        tensors: The tensors of the attention call.
        geometry: Positions of the layer's tokens on the image.
        with_sink: Also compute the share of keys without a position.
        whole_layers: Keep all heads of an image in one block.
        heads: Restrict the rows to these heads.
    """
    queries, first = geometry.query_tokens, geometry.query_tokens.start
    num_keys = tensors.num_keys if with_sink else geometry.num_keys
    for block in tensors.blocks(tensors.num_images, queries, num_keys, whole_layers, heads):
        span = slice(block.queries.start - first, block.queries.stop - first)
        weights_of = _recompute_softmax if tensors.is_softmax else _renormalise_rows
        weights, entropies, sink = weights_of(tensors, geometry, block, with_sink)
        if geometry.query_missing is not None:
            missing = geometry.query_missing[:, None, span]
            weights = weights.masked_fill(missing[..., None], 0.0)
            entropies = entropies.masked_fill(missing, 0.0)
            sink = None if sink is None else sink.masked_fill(missing, 0.0)
        scratch = tensors.buffers.take("logits", tuple(weights.shape), like=weights)
        yield Rows(weights, entropies, sink, geometry, block, span, scratch)


def _recompute_softmax(
    tensors: Unfolded, geometry: Geometry, block: RowBlock, with_sink: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return weights, entropies and sink of a fused call; rows without a visible key are NaN."""
    logits = tensors.logits(block, geometry.key_tokens)
    if geometry.key_missing is not None:
        logits.masked_fill_(geometry.key_missing[:, None, None], -torch.inf)
    weights = tensors.buffers.take("weights", logits.shape, like=logits)
    torch.softmax(logits, -1, out=weights)
    lowest = torch.finfo(logits.dtype).min  # replaces -inf, because 0 * -inf is NaN
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
    # The logarithm of the share that the keys with a position have in all attention of a row.
    log_share = (total - everything.logsumexp(-1)).clamp(max=0)
    return weights, entropies, -torch.expm1(log_share)


def _logsumexp(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the logsumexp of rows whose softmax is known: a key's logit minus its log weight.

    Any key gives the same result. The first one is used, or the one with the largest weight if the
    weight of the first is too small for an accurate logarithm.
    """
    logit, weight = logits[..., 0], weights[..., 0]
    if bool((weight < SMALLEST).any()):
        logit, weight = logits.amax(-1), weights.amax(-1)
    return logit - weight.log()


def _renormalise_rows(
    tensors: Unfolded, geometry: Geometry, block: RowBlock, with_sink: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return weights, entropies and sink if the weights are not a plain softmax of logits.

    These are the weights of explicit attention, as the model computed them, and those that GPSA
    mixes from content and position.
    """
    rows = tensors.weights(block)
    weights = rows[..., geometry.key_tokens]
    if geometry.key_missing is not None:
        weights = weights.masked_fill(geometry.key_missing[:, None, None], 0.0)
    shares = weights.sum(-1)  # attention on keys with a position
    weights = weights / shares[..., None]
    sink = (rows.sum(-1) - shares).clamp(min=0) if with_sink else None
    return weights, torch.special.entr(weights).sum(-1), sink
