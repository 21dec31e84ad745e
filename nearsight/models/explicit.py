"""Explicit attention: two batched products with a hand-written gradient (Vaswani et al. 2017).

Forward:   P = softmax(scale * Q K^T),  O = P V
Backward:  dV = P^T dO,  dS = P * (dP - rowsum(dP * P)) with dP = dO V^T,
           dQ = scale * dS K,  dK = scale * dS^T Q

Where we differ from letting autograd do it, and why: the same products, but the scale rides in them
instead of taking passes of its own, softmax and its gradient work in place, and the gradients of
queries, keys and values are written once, into the layout the linear layer before them wants.
docs/models.md has the times beside autograd's version and torch's fused kernel.
``attention_kernel`` in attention.py says when it is taken. Second derivatives are refused.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

CHUNK = 256  # heads times images per piece of the backward: dS stays in the cache


def explicit_attention(
    queries: Float[Tensor, "batch head query width"],
    keys: Float[Tensor, "batch head key width"],
    values: Float[Tensor, "batch head key width"],
    scale: float,
) -> Float[Tensor, "batch head query width"]:
    """softmax(scale * q k^T) v; keeps the probabilities for the backward."""
    return _ExplicitAttention.apply(queries, keys, values, scale)


def split_heads(
    qkv: Float[Tensor, "batch token 3 head width"],
) -> tuple[
    Float[Tensor, "batch head token width"],
    Float[Tensor, "batch head token width"],
    Float[Tensor, "batch head token width"],
]:
    """Queries, keys and values, each contiguous: ``qkv.permute(2, 0, 3, 1, 4).unbind(0)``.

    The backward writes the three gradients side by side; autograd's would stack and then permute.
    """
    return _SplitHeads.apply(qkv)


class _ExplicitAttention(Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        batch, heads, num_queries, width = queries.shape
        q, k, v = (x.flatten(0, 1) for x in (queries, keys, values))  # [batch * head, token, width]
        scores = q.new_empty(batch * heads, num_queries, k.shape[1])
        scores.baddbmm_(q, k.transpose(1, 2), beta=0, alpha=scale)
        weights = torch.softmax(scores, -1, out=scores)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = scale
        return torch.bmm(weights, v).view(batch, heads, num_queries, width)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        _refuse_second_derivative()
        q, k, v, weights = ctx.saved_tensors
        grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q, k, v))
        grads = grad_q, grad_k, grad_v, grad.flatten(0, 1)
        pieces = (x.split(CHUNK) for x in (q, k, v, weights, *grads))
        for q_, k_, v_, weights_, grad_q_, grad_k_, grad_v_, grad_ in zip(*pieces):
            torch.bmm(weights_.transpose(1, 2), grad_, out=grad_v_)
            scores = torch.bmm(grad_, v_.transpose(1, 2))  # dP, then dS in its place
            torch._softmax_backward_data(scores, weights_, -1, scores.dtype, grad_input=scores)
            grad_q_.baddbmm_(scores, k_, beta=0, alpha=ctx.scale)
            grad_k_.baddbmm_(scores.transpose(1, 2), q_, beta=0, alpha=ctx.scale)
        head_first = grad.shape[:2]  # [batch, head]
        return *(x.unflatten(0, head_first) for x in (grad_q, grad_k, grad_v)), None


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
    """``create_graph=True`` runs the backward with gradients on; ours would pass as constants."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "expected create_graph=False: explicit attention has no second derivative; "
            "compute attention_weights(q, k, scale) @ v where one is needed"
        )
