"""Add GAug to the global attention of timm's models and ours: a bias on the logits.

Each class is its parent plus the layer ``gaug``. ``install`` (backbones.py) turns an instance of
the parent into it in place, so that weights and their names stay. window_attention.py does the same
for windows. ``gaug`` gets the queries after their norm, before they are scaled or rotated. Where we
differ from the parents: attention is computed by ``attend``, with dropout and masks. Causal
attention raises an error, because it would hide half of every Gaussian.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import (
    PatchBias,
    SelfAttention,
    TokenGrid,
    attend,
    join_heads,
    separate_heads,
)
from nearsight.models.parts.locat.gaussian import Gaussian

declare_missing_ops()

from timm.layers.attention import Attention, AttentionRope  # noqa: E402
from timm.layers.pos_embed_sincos import apply_rot_embed_cat  # noqa: E402
from timm.models.eva import EvaAttention  # noqa: E402


class _Augmented:
    """Attention with a bias between all patches of the image; prefix tokens come first."""

    gaug: Gaussian
    tokens: TokenGrid
    biased = True

    def patch_bias(self, queries: Tensor, keys: Tensor, inputs: Tensor) -> PatchBias:
        """Return the Gaussian bias between patches."""
        self.tokens.check(queries.shape[2])
        first = self.tokens.num_prefix
        return self.gaug(
            queries[:, :, first:], keys[:, :, first:], inputs[:, first:], self.tokens.grid
        )


class GaussianSelfAttention(_Augmented, SelfAttention):
    """Our self-attention with GAug."""


class GaussianAttention(_Augmented, Attention):
    """timm's ViT attention with GAug."""

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = separate_heads(qkv, biased=True)
        q, k = self.q_norm(q), self.k_norm(k)
        return attend_and_project(self, x, q, k, v, self.patch_bias(q, k, x), attn_mask, is_causal)


class GaussianAttentionRope(_Augmented, AttentionRope):
    """timm's rotary attention with GAug."""

    def forward(
        self,
        x: Tensor,
        rope: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        if self.qkv is not None:
            qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
            q, k, v = separate_heads(qkv, biased=True)
        else:
            q, k, v = _from_projections(self, x)
        return _rotate_and_attend(self, x, q, k, v, rope, attn_mask, is_causal)


class GaussianEvaAttention(_Augmented, EvaAttention):
    """timm's EVA attention, whose keys have no bias, with GAug."""

    k_bias: Any

    def forward(
        self,
        x: Tensor,
        rope: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        if self.qkv is not None:
            added = None
            if self.q_bias is not None:
                added = torch.cat((self.q_bias, self.k_bias, self.v_bias))
            qkv = F.linear(x, self.qkv.weight, added).unflatten(-1, (3, self.num_heads, -1))
            q, k, v = separate_heads(qkv, biased=True)
        else:
            q, k, v = _from_projections(self, x)
        return _rotate_and_attend(self, x, q, k, v, rope, attn_mask, is_causal)


def _from_projections(layer: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of a layer that has one linear map for each."""
    q, k, v = (
        project(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for project in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    return q, k, v


def _rotate_and_attend(
    layer: Any,
    x: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rope: Tensor | None,
    mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    """Compute rotary attention: GAug sees the queries before the patches are rotated.

    Args:
        layer: The attention module.
        x: Its input.
        q: Queries.
        k: Keys.
        v: Values.
        rope: Rotary embedding.
        mask: Mask between tokens.
        is_causal: Whether causal attention was requested.
    """
    q, k = layer.q_norm(q), layer.k_norm(k)
    groups = getattr(layer, "num_kv_groups", 1)
    if groups > 1:
        k, v = (y.repeat_interleave(groups, dim=1) for y in (k, v))
    bias = layer.patch_bias(q, k, x)
    if rope is not None:
        first, half = layer.num_prefix_tokens, getattr(layer, "rotate_half", False)
        q, k = (
            torch.cat(
                [y[:, :, :first], apply_rot_embed_cat(y[:, :, first:], rope, half=half)], 2
            ).type_as(v)
            for y in (q, k)
        )
    return attend_and_project(layer, x, q, k, v, bias, mask, is_causal)


def attend_and_project(
    layer: Any,
    x: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: PatchBias,
    mask: Tensor | None,
    is_causal: bool = False,
) -> Tensor:
    """Compute attention and everything a timm layer does after it.

    Args:
        layer: The attention module.
        x: Its input.
        q: Queries.
        k: Keys.
        v: Values.
        bias: Bias between patches.
        mask: Mask between tokens.
        is_causal: Whether causal attention was requested.
    """
    if is_causal:
        raise UserError(
            "GAug attends in both directions and does not support is_causal=True; leave it out"
        )
    dropout = layer.attn_drop.p if layer.training and hasattr(layer, "attn_drop") else 0.0
    out = join_heads(attend(q, k, v, layer.scale, bias, mask, dropout))
    if (norm := getattr(layer, "norm", None)) is not None:
        out = norm(out)
    if (gate := getattr(layer, "gate", None)) is not None:
        out = out * gate(x).sigmoid()
    return layer.proj_drop(layer.proj(out)) if hasattr(layer, "proj_drop") else layer.proj(out)
