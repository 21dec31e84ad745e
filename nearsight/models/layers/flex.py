"""Attention whose bias is made inside the kernel: torch's FlexAttention (Dong et al. 2024).

The kernel looks up the two factors of a bias where it needs them, so no [token, token] matrix is
kept, forward or backward. Taken on CUDA (``attention_kernel``), with gradients for the factors.
Not run here: this was written without such a device. On CPU only its forward exists, which a test
compares with ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.models.layers.bias import SeparableBias


def flex_attend(
    queries: Float[Tensor, "batch head token width"],
    keys: Float[Tensor, "batch head token width"],
    values: Float[Tensor, "batch head token width"],
    scale: float,
    bias: SeparableBias,
) -> Float[Tensor, "batch head token width"]:
    """``attend`` with a bias in two factors; prefix tokens come first and have none."""
    rows, cols = bias
    num_prefix, num_cols = queries.shape[-2] - rows.shape[-2], cols.shape[-1]

    @no_type_check  # torch traces it
    def add(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        patch, other = (query - num_prefix).clamp(min=0), (key - num_prefix).clamp(min=0)
        along_rows = rows[batch, head, patch, other // num_cols]
        along_cols = cols[batch, head, patch, other % num_cols]
        between_patches = (query >= num_prefix) & (key >= num_prefix)
        return score + torch.where(between_patches, along_rows * along_cols, 0.0)

    return _compiled()(queries, keys, values, score_mod=add, scale=scale)


@cache
def _compiled() -> Callable[..., Tensor]:
    """Compiled when first needed; eager FlexAttention would make the whole matrix."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
