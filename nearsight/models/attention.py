"""Multi-head self-attention (Vaswani et al. 2017).

attention = softmax(q k^T / sqrt(d)), output = attention v.

``attend`` is the one place where attention is computed; capture sees it through torch's function modes,
so that measuring never edits a model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function


def attention_weights(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    scale: float,
) -> Float[Tensor, "batch head query key"]:
    """softmax(scale * q k^T); every row sums to one."""
    return (queries @ keys.transpose(-2, -1) * scale).softmax(-1)


def attend(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Attention-weighted values [batch, head, query, width]."""
    if has_torch_function((queries, keys, values)):
        return handle_torch_function(attend, (queries, keys, values), queries, keys, values, scale)
    return F.scaled_dot_product_attention(queries, keys, values, scale=scale)


class SelfAttention(nn.Module):
    """Self-attention over all tokens; weight names as in timm (``qkv``, ``proj``)."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"expected a width divisible by {num_heads} heads, got {width}")
        self.num_heads = num_heads
        self.scale = (width // num_heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, width // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each [batch, head, token, head width]
        out = attend(q, k, v, self.scale)
        return self.proj(out.transpose(1, 2).reshape(batch, tokens, width))
