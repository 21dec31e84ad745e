"""Multi-head self-attention (Vaswani et al. 2017).

attention = softmax(q k^T / sqrt(d) + bias), output = attention v.

``attend`` is the only place where our models compute this attention. Capture sees its calls through
torch's function modes, so that measuring never edits a model. Where we differ: several kernels give
the same numbers, and ``attention_kernel`` chooses the fastest one. A bias between patches may be
given as two factors, whose product a kernel computes piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, no_type_check

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from nearsight.core import UserError
from nearsight.models.layers.attention_functions import ATTENTION_FUNCTIONS
from nearsight.models.layers.bias import (
    PatchBias,
    SeparableBias,
    attention_mask,
    clear_prefix,
    write_product,
)
from nearsight.models.layers.explicit import explicit_attention, split_heads

Kernel = Literal["explicit", "fused", "pieces", "flex"]
PIECE = 2**19  # numbers of a bias in memory at a time: 2 MB, which stay in the cache
MAX_EXPLICIT_TOKENS = 128  # the explicit kernel is faster at 65 tokens and equally fast at 197


def attention_kernel(
    num_tokens: int,
    device: torch.device,
    dtype: torch.dtype,
    needs_grad: bool,
    biased: bool = False,
) -> Kernel:
    """Choose the fastest kernel.

    - "explicit" to train on a CPU in full precision: for short sequences, and for any length with a
      bias, whose gradient torch's fused kernel does not compute. This was measured for head widths
      from 11 to 128 (docs/models.md); the width does not change the rule.
    - "pieces" without a gradient on a CPU with a bias: the fused kernel for a few images at a time,
      so that the whole bias is never in memory.
    - "flex" on CUDA with a bias, which FlexAttention computes inside the kernel.
    - "fused" in all other cases: without a bias on other devices or without a gradient, in half
      precision and autocast, and whenever torch traces the model (compile, export, ONNX), because
      tracing cannot see inside the other kernels.

    Args:
        num_tokens: Length of the longest sequence.
        device: Where attention is computed.
        dtype: Precision of queries, keys and values.
        needs_grad: Whether a gradient will be needed.
        biased: Whether there is a bias between patches.

    >>> attention_kernel(65, torch.device("cpu"), torch.float32, needs_grad=True)
    'explicit'
    """
    if _is_tracing():
        return "fused"
    if biased and device.type == "cuda":
        return "flex"
    if biased and device.type == "cpu" and not needs_grad:
        return "pieces"
    if not needs_grad or torch.is_autocast_enabled(device.type):
        return "fused"
    full_precision = dtype in (torch.float32, torch.float64)
    short = biased or num_tokens <= MAX_EXPLICIT_TOKENS
    return "explicit" if device.type == "cpu" and full_precision and short else "fused"


def _is_tracing() -> bool:
    """Return whether torch is recording what runs (compile, export, ONNX, trace)."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def attention_weights(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    scale: float,
    bias: Float[Tensor, "batch head query key"] | None = None,
) -> Float[Tensor, "batch head query key"]:
    """Return softmax(scale * q k^T + bias), whose rows sum to one."""
    logits = queries @ keys.transpose(-2, -1) * scale
    return (logits if bias is None else logits + bias).softmax(-1)


def attend(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    values: Float[Tensor, "batch head key width"],
    scale: float,
    bias: PatchBias | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query width"]:
    """Return attention-weighted values, ``attention_weights(q, k, scale, bias) @ v``.

    Args:
        queries: [batch, head, query, width].
        keys: [batch, head, key, width].
        values: [batch, head, key, width].
        scale: Factor of the products of queries and keys.
        bias: Added to the logits between patches.
        mask: Between all tokens, in torch's form: added to the logits, or boolean.
        dropout: Probability of dropping a weight.
    """
    given = (queries, keys, values)
    if has_torch_function(given):
        return handle_torch_function(attend, given, *given, scale, bias, mask, dropout)
    if mask is None and not dropout and not isinstance(bias, Tensor):
        factors = bias or ()
        kernel = _kernel_for(*given, *factors, biased=bias is not None)
        if kernel == "explicit":
            return explicit_attention(*given, scale, *factors)
        if bias is not None and kernel == "pieces":
            return _in_pieces(*given, scale, bias)
        if bias is not None and kernel == "flex":
            return flex_attend(*given, scale, bias)
    whole = attention_mask(bias, mask, queries)
    return F.scaled_dot_product_attention(*given, whole, dropout, scale=scale)


def _describe(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    bias: PatchBias | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> dict[str, Any]:
    """Describe a call of ``attend`` for capture; the bias becomes part of the mask."""
    with torch.no_grad():
        whole = attention_mask(bias, mask, queries)
    return {"queries": queries, "keys": keys, "values": values, "scale": scale, "mask": whole}


ATTENTION_FUNCTIONS[attend] = _describe


def _in_pieces(
    queries: Float[Tensor, "batch head token width"],
    keys: Float[Tensor, "batch head token width"],
    values: Float[Tensor, "batch head token width"],
    scale: float,
    bias: SeparableBias,
) -> Float[Tensor, "batch head token width"]:
    """Run fused attention for a few images at a time, so that the bias is never whole in memory."""
    batch, heads, tokens, _ = queries.shape
    num_images = max(1, PIECE // (heads * tokens**2))
    buffer = queries.new_empty(min(num_images, batch), heads, tokens, tokens)
    clear_prefix(buffer, tokens - bias.rows.shape[-2])
    out = torch.empty_like(queries.transpose(1, 2), memory_format=torch.contiguous_format)
    for first in range(0, batch, num_images):
        piece = slice(first, first + num_images)
        mask = buffer[: batch - first]
        write_product(mask, bias.rows[piece], bias.cols[piece])
        given = queries[piece], keys[piece], values[piece]
        made = F.scaled_dot_product_attention(*given, mask, scale=scale)
        out[piece] = made.transpose(1, 2)
    return out.transpose(1, 2)  # the fused kernel's layout, which join_heads need not copy


def _kernel_for(*inputs: Tensor, biased: bool = False) -> Kernel:
    """Return ``attention_kernel`` for these tensors, with gradients if they are on and needed."""
    needs_grad = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    num_tokens = max(x.shape[-2] for x in inputs)
    return attention_kernel(num_tokens, inputs[0].device, inputs[0].dtype, needs_grad, biased)


def separate_heads(
    qkv: Float[Tensor, "batch token 3 head width"], biased: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values [batch, head, token, width] in the layout of the kernel."""
    heads_first = qkv.permute(2, 0, 3, 1, 4)  # [3, batch, head, token, width]
    explicit = _kernel_for(heads_first, biased=biased) == "explicit"
    q, k, v = split_heads(qkv) if explicit else heads_first.unbind(0)
    return q, k, v


def join_heads(
    out: Float[Tensor, "batch head token width"],
) -> Float[Tensor, "batch token wide"]:
    """Concatenate the outputs of all heads for each token."""
    out = out.transpose(1, 2)
    if _is_tracing():  # ONNX's kernel has other strides, so the result must not be a view
        out = out.clone(memory_format=torch.contiguous_format)
    return out.flatten(2)


class SelfAttention(nn.Module):
    """Self-attention over all tokens; weights are named as in timm (``qkv``, ``proj``)."""

    biased = False  # whether ``patch_bias`` returns a bias

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        if width % num_heads:
            raise UserError(
                f"width {width} is not divisible by {num_heads} heads; change width or num_heads"
            )
        self.num_heads = num_heads
        self.head_dim = width // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def patch_bias(self, queries: Tensor, keys: Tensor, inputs: Tensor) -> PatchBias | None:
        """Return the bias that a subclass adds to the logits between patches, or None."""
        return None

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Return the output of self-attention between all tokens."""
        qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim))
        q, k, v = separate_heads(qkv, self.biased)
        out = attend(q, k, v, self.scale, self.patch_bias(q, k, x))  # [batch, head, token, width]
        return self.proj(join_heads(out))


def flex_attend(
    queries: Float[Tensor, "batch head token width"],
    keys: Float[Tensor, "batch head token width"],
    values: Float[Tensor, "batch head token width"],
    scale: float,
    bias: SeparableBias,
) -> Float[Tensor, "batch head token width"]:
    """Compute ``attend`` with a bias in two factors, by FlexAttention.

    Args:
        queries: Queries; prefix tokens come first and have no bias.
        keys: Keys.
        values: Values.
        scale: Factor of the products of queries and keys.
        bias: The bias between patches.
    """
    rows, cols = bias
    num_prefix, num_cols = queries.shape[-2] - rows.shape[-2], cols.shape[-1]

    @no_type_check  # torch traces it
    def add(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        patch, other = (query - num_prefix).clamp(min=0), (key - num_prefix).clamp(min=0)
        along_rows = rows[batch, head, patch, other // num_cols]
        along_cols = cols[batch, head, patch, other % num_cols]
        between_patches = (query >= num_prefix) & (key >= num_prefix)
        return score + torch.where(between_patches, along_rows * along_cols, 0.0)

    return _compile_flex()(queries, keys, values, score_mod=add, scale=scale)


@cache
def _compile_flex() -> Callable[..., Tensor]:
    """Compile FlexAttention once; without this, it would store the whole attention matrix."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
