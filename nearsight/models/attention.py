"""Multi-head self-attention (Vaswani et al. 2017).

attention = softmax(q k^T / sqrt(d)), output = attention v.

``attend`` is the one place where attention is computed; capture sees it through torch's function
modes, so that measuring never edits a model. Where we differ: two kernels give the same numbers,
and ``attention_kernel`` takes the faster one.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from nearsight.models.explicit import explicit_attention, split_heads

Kernel = Literal["explicit", "fused"]
MAX_EXPLICIT_TOKENS = 128  # widths 24 to 64: explicit ahead at 65 tokens, level at 197


def attention_kernel(
    num_tokens: int, device: torch.device, dtype: torch.dtype, needs_grad: bool
) -> Kernel:
    """The faster kernel: explicit to train short sequences in full precision on CPU, else fused.

    Measured for head widths from 11 to 128 (docs/models.md); the width does not change the rule.
    Without a gradient the fused kernel wins and keeps no [token, token] matrix; on other devices it
    always does. Half precision and autocast are left to it as well, and so is everything that torch
    traces (compile, export, ONNX), for which the explicit kernel would be opaque.

    >>> attention_kernel(65, torch.device("cpu"), torch.float32, needs_grad=True)
    'explicit'
    """
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if not needs_grad or traced or torch.is_autocast_enabled(device.type):
        return "fused"
    full_precision = dtype in (torch.float32, torch.float64)
    short = num_tokens <= MAX_EXPLICIT_TOKENS
    return "explicit" if device.type == "cpu" and full_precision and short else "fused"


def attention_weights(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    scale: float,
) -> Float[Tensor, "batch head query key"]:
    """softmax(scale * q k^T); every row sums to one."""
    return (queries @ keys.transpose(-2, -1) * scale).softmax(-1)


def attend(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    values: Float[Tensor, "batch head key width"],
    scale: float,
) -> Float[Tensor, "batch head query width"]:
    """Attention-weighted values, ``attention_weights(q, k, scale) @ v``."""
    if has_torch_function((queries, keys, values)):
        given = (queries, keys, values)
        return handle_torch_function(attend, given, *given, scale)
    if _kernel_for(queries, keys, values) == "explicit":
        return explicit_attention(queries, keys, values, scale)
    return F.scaled_dot_product_attention(queries, keys, values, scale=scale)


def _kernel_for(*inputs: Tensor) -> Kernel:
    """``attention_kernel`` for the longest of these sequences in the present grad mode."""
    needs_grad = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    num_tokens = max(x.shape[-2] for x in inputs)
    return attention_kernel(num_tokens, inputs[0].device, inputs[0].dtype, needs_grad)


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
        qkv = self.qkv(x).view(batch, tokens, 3, self.num_heads, width // self.num_heads)
        heads_first = qkv.permute(2, 0, 3, 1, 4)  # [3, batch, head, token, head width]
        explicit = _kernel_for(heads_first) == "explicit"
        q, k, v = split_heads(qkv) if explicit else heads_first.unbind(0)
        out = attend(q, k, v, self.scale)  # [batch, head, token, head width]
        return self.proj(out.transpose(1, 2).reshape(batch, tokens, width))
