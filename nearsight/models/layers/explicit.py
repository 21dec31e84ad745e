"""Explicit attention: two batched products with a hand-written gradient (Vaswani et al. 2017).

Forward:   P = softmax(scale * Q K^T + B),  O = P V,  B[p, (r, c)] = R[p, r] C[p, c] between patches
Backward:  dV = P^T dO,  dS = P * (dP - rowsum(dP * P)) with dP = dO V^T,
           dQ = scale * dS K,  dK = scale * dS^T Q,
           dR = sum over columns of dS C,  dC = sum over rows of dS R

Where we differ from leaving the gradient to autograd, and why:
- The products are the same, but scale and bias are applied inside them instead of in further passes
  over memory.
- Softmax and its gradient work in place, on a few heads at a time, which stay in the cache.
- The gradients of queries, keys and values are written once, in the memory layout that the linear
  layer before them needs.

docs/models.md compares the times with autograd's version and torch's fused kernel, and
``attention_kernel`` in attention.py says when this version is used. It has no second derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from nearsight.models.layers.bias import between_patches, write_bias

PIECE = 2**20  # attention weights per piece


def explicit_attention(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    values: Float[Tensor, "batch head key width"],
    scale: float,
    rows: Float[Tensor, "batch head patch row"] | None = None,
    cols: Float[Tensor, "batch head patch col"] | None = None,
) -> Float[Tensor, "batch head query width"]:
    """Return softmax(scale * q k^T + bias) v, and keep the weights for the backward pass.

    Args:
        queries: [batch, head, query, width].
        keys: [batch, head, key, width].
        values: [batch, head, key, width].
        scale: Factor of the products of queries and keys.
        rows: The factor of rows of the bias between patches, if there is a bias. Prefix tokens
            come first and have none.
        cols: Its factor of columns.
    """
    return _ExplicitAttention.apply(queries, keys, values, scale, rows, cols)


def split_heads(
    qkv: Float[Tensor, "batch token 3 head width"],
) -> tuple[
    Float[Tensor, "batch head token width"],
    Float[Tensor, "batch head token width"],
    Float[Tensor, "batch head token width"],
]:
    """Return contiguous queries, keys and values: ``qkv.permute(2, 0, 3, 1, 4).unbind(0)``.

    Its backward pass writes the three gradients directly into place. Autograd would first stack and
    then permute them.
    """
    return _SplitHeads.apply(qkv)


class _ExplicitAttention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        rows: Tensor | None,
        cols: Tensor | None,
    ) -> Tensor:
        ctx.head_first = queries.shape[:2]  # [batch, head]
        ctx.scale = scale
        given = [x.flatten(0, 1) for x in (queries, keys, values, rows, cols) if x is not None]
        q, k, v = given[:3]  # [batch * head, token, width]
        weights = q.new_empty(len(q), q.shape[1], k.shape[1])
        output = q.new_empty(len(q), q.shape[1], v.shape[2])
        for scores, out, q_, k_, v_, *bias in _pieces(weights, output, *given):
            if bias:
                write_bias(scores, *bias)
            scores.baddbmm_(q_, k_.transpose(1, 2), beta=1 if bias else 0, alpha=scale)
            torch.softmax(scores, -1, out=scores)
            torch.bmm(scores, v_, out=out)
        ctx.save_for_backward(weights, *given)
        return output.unflatten(0, ctx.head_first)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_derivative()
        weights, *given = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in given]
        num = len(given)
        for weights_, grad_, *rest in _pieces(weights, grad.flatten(0, 1), *given, *grads):
            (q, k, v, *bias), (grad_q, grad_k, grad_v, *grad_bias) = rest[:num], rest[num:]
            torch.bmm(weights_.transpose(1, 2), grad_, out=grad_v)
            scores = torch.bmm(grad_, v.transpose(1, 2))  # dP, then dS in its place
            torch._softmax_backward_data(scores, weights_, -1, scores.dtype, grad_input=scores)
            grad_q.baddbmm_(scores, k, beta=0, alpha=ctx.scale)
            grad_k.baddbmm_(scores.transpose(1, 2), q, beta=0, alpha=ctx.scale)
            if bias:
                _write_bias_gradient(scores, *bias, *grad_bias)
        grad_q, grad_k, grad_v, *grad_bias = (x.unflatten(0, ctx.head_first) for x in grads)
        return grad_q, grad_k, grad_v, None, *(grad_bias or (None, None))


def _pieces(weights: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cut all tensors along heads into pieces of at most PIECE attention weights, if possible."""
    num_heads = max(1, PIECE // max(1, weights[0].numel())) if len(weights) else 1
    return zip(*(x.split(num_heads) for x in (weights, *others)))


def _write_bias_gradient(
    grad_scores: Tensor, rows: Tensor, cols: Tensor, grad_rows: Tensor, grad_cols: Tensor
) -> None:
    """Write the gradients of the two factors of the bias, given that of the scores."""
    patches = between_patches(grad_scores, rows)
    torch.sum(patches * cols[..., None, :], -1, out=grad_rows)
    torch.sum(patches * rows[..., None], -2, out=grad_cols)


class _SplitHeads(Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor) -> tuple[Tensor, ...]:
        return qkv.permute(2, 0, 3, 1, 4).contiguous().unbind(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        _refuse_second_derivative()
        batch, heads, tokens, width = grads[0].shape
        grad_qkv = grads[0].new_empty(batch, tokens, 3, heads, width)
        for part, grad in enumerate(grads):
            grad_qkv[:, :, part] = grad.transpose(1, 2)
        return grad_qkv


def _refuse_second_derivative() -> None:
    """Raise an error if a second derivative is requested, which would be silently wrong.

    With ``create_graph=True`` the backward pass runs with gradients on, but autograd would treat
    the gradients that we compute as constants.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "create_graph=True is not supported, because explicit attention has no second "
            "derivative; compute attention_weights(q, k, scale) @ v where one is needed"
        )
