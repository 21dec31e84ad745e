"""Patch representation refinement, PRR (LocAt, arXiv 2603.04892, section 4.2).

After the final norm every token attends to all tokens without parameters, q = k = v = x, in as many
heads as the backbone has:

    refined = softmax(x x^T / sqrt(d)) x  per head, no residual

and the head reads the refined [CLS]. In this way, gradients reach the patches of the last layer.
Where we differ: only the rows that the head reads are computed (for [CLS] one row instead of N),
which gives the same logits. PRR only pools; the features that dense tasks use stay the same.
"""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.layers import join_heads

POOLS = ("token", "avg")


def refine(
    x: Float[Tensor, "batch token width"], num_heads: int, num_queries: int | None = None
) -> Float[Tensor, "batch query width"]:
    """Refine the first tokens by attention without parameters (PRR).

    Args:
        x: Tokens [batch, token, width], prefix tokens first.
        num_heads: Number of heads, which must divide the width.
        num_queries: How many tokens to refine; None for all.

    Raises:
        UserError: If the heads do not divide the width.

    Two tokens of width 1 with the values 0 and 1: the first attends to both equally.

    >>> import torch
    >>> refine(torch.tensor([[[0.0], [1.0]]]), num_heads=1).squeeze()
    tensor([0.5000, 0.7311])
    """
    if x.shape[-1] % num_heads:
        raise UserError(
            f"width {x.shape[-1]} is not divisible by {num_heads} heads; change num_heads"
        )
    tokens = x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # [batch, head, token, head width]
    out = F.scaled_dot_product_attention(tokens[:, :, :num_queries], tokens, tokens)
    return join_heads(out)


class Refine(nn.Module):
    """PRR as a pooling layer without parameters: it turns all tokens into what the head reads.

    Args:
        num_heads: Number of heads, which must divide the width.
        pool: "token" returns the refined first token, "avg" the mean of the refined patches.
        num_prefix: Number of prefix tokens, which are left out of the mean.
    """

    part_title = "LocAt"

    def __init__(self, num_heads: int, pool: str = "token", num_prefix: int = 0) -> None:
        super().__init__()
        if pool not in POOLS:
            raise UserError(
                f"pool is {pool!r}, but with refinement it must be one of {', '.join(POOLS)}"
            )
        self.num_heads = num_heads
        self.pool = pool
        self.num_prefix = num_prefix

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch width"]:
        """Refine the tokens and pool them."""
        if self.pool == "token":
            return refine(x, self.num_heads, num_queries=1)[:, 0]
        return refine(x, self.num_heads)[:, self.num_prefix :].mean(1)

    def extra_repr(self) -> str:
        """Return the settings for the printed module."""
        return f"num_heads={self.num_heads}, pool={self.pool}"


class RefineMap(Refine):
    """PRR for a feature map.

    Args:
        num_heads: Number of heads, which must divide the width.
        pool: "avg" for the mean of the refined patches.
        channels_first: Whether channels come first (GCViT, DaViT) or last (Swin).
        keep_map: Return a map of one cell, for heads that normalise a map (DaViT).
    """

    def __init__(
        self,
        num_heads: int,
        pool: str = "avg",
        channels_first: bool = False,
        keep_map: bool = False,
    ) -> None:
        super().__init__(num_heads, pool)
        self.channels_first = channels_first
        self.keep_map = keep_map

    def forward(self, x: Float[Tensor, "batch first second third"]) -> Float[Tensor, "batch ..."]:
        """Refine the patches of a feature map and pool them."""
        if self.channels_first:
            x = x.movedim(1, -1)
        pooled = super().forward(x.flatten(1, 2))  # [batch, row * col, width] -> [batch, width]
        return pooled[..., None, None] if self.keep_map else pooled
