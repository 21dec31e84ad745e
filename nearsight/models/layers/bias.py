"""A bias on attention logits between patches, as a tensor or as two factors.

Two factors take less memory; they are multiplied only where their product is needed. Prefix tokens
come first and have no bias: it is 0 in their rows and columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


class SeparableBias(NamedTuple):
    """A bias as a product: bias[p, (row, col)] = rows[p, row] * cols[p, col]."""

    rows: Float[Tensor, "batch head patch row"]
    cols: Float[Tensor, "batch head patch col"]

    def dense(self) -> Float[Tensor, "batch head patch patch"]:
        """Return the bias of every pair of patches."""
        return (self.rows[..., :, None] * self.cols[..., None, :]).flatten(-2)


PatchBias = SeparableBias | Tensor  # factors, or [batch, head, patch, patch]


def token_bias(bias: PatchBias, num_tokens: int) -> Float[Tensor, "batch head token token"]:
    """Return the bias between all tokens, which is 0 for prefix tokens.

    >>> token_bias(torch.ones(1, 1, 1, 1), num_tokens=2)
    tensor([[[[0., 0.],
              [0., 1.]]]])
    """
    patches = bias.dense() if isinstance(bias, SeparableBias) else bias
    num_prefix = num_tokens - patches.shape[-1]
    return F.pad(patches, (num_prefix, 0, num_prefix, 0)) if num_prefix else patches


def attention_mask(
    bias: PatchBias | None, mask: Tensor | None, queries: Float[Tensor, "batch head query width"]
) -> Tensor | None:
    """Combine bias and mask into the single mask that torch takes, in the queries' precision.

    Args:
        bias: The bias between patches, if there is one.
        mask: A mask between all tokens, boolean or added to the logits, if there is one.
        queries: The queries, which tell the number of tokens and the precision.
    """
    if bias is None:
        return mask
    whole = token_bias(bias, queries.shape[-2]).to(queries.dtype)
    if mask is None:
        return whole
    return whole.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else whole + mask


def write_bias(
    out: Float[Tensor, "... token token"],
    rows: Float[Tensor, "... patch row"],
    cols: Float[Tensor, "... patch col"],
) -> None:
    """Write what ``token_bias`` returns for two factors into existing memory."""
    clear_prefix(out, out.shape[-1] - rows.shape[-2])
    write_product(out, rows, cols)


def clear_prefix(out: Float[Tensor, "... token token"], num_prefix: int) -> None:
    """Set the rows and columns of prefix tokens to 0."""
    out[..., :num_prefix, :] = 0
    out[..., :num_prefix] = 0


def write_product(
    out: Float[Tensor, "... token token"],
    rows: Float[Tensor, "... patch row"],
    cols: Float[Tensor, "... patch col"],
) -> None:
    """Write the bias between patches; the rows and columns of prefix tokens must already be 0."""
    torch.mul(rows[..., None], cols[..., None, :], out=between_patches(out, rows))


def between_patches(
    scores: Float[Tensor, "... token token"], rows: Float[Tensor, "... patch row"]
) -> Float[Tensor, "... patch row col"]:
    """Return a view of the scores between patches, to which the product of factors can be added."""
    num_prefix = scores.shape[-1] - rows.shape[-2]
    return scores[..., num_prefix:, num_prefix:].unflatten(-1, (rows.shape[-1], -1))
