"""Add GAug to the attention of timm's models and ours: the same modules, with a bias on the logits.

Each class is its parent plus the layer ``gaug``. ``install`` turns a parent into it in place, so
that weights and their names stay. Queries go to ``gaug`` after their norm, before the scale and
before any rotation. Where we differ from the parents: attention is computed by ``attend``, with
dropout and masks; causal attention is refused, because it hides the patches ahead.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import (
    Grid,
    PatchBias,
    SelfAttention,
    TokenGrid,
    attend,
    join_heads,
    separate_heads,
)
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.protocol import GaussianSettings

declare_missing_ops()

from timm.layers.attention import Attention, AttentionRope  # noqa: E402
from timm.layers.pos_embed_sincos import apply_rot_embed_cat  # noqa: E402
from timm.models.davit import WindowAttention as DavitWindowAttention  # noqa: E402
from timm.models.eva import EvaAttention  # noqa: E402
from timm.models.gcvit import WindowAttentionGlobal  # noqa: E402
from timm.models.swin_transformer import WindowAttention  # noqa: E402


class _Augmented:
    """Attention with a bias between all patches of the image; prefix tokens come first."""

    gaug: Gaussian
    tokens: TokenGrid
    biased = True

    def patch_bias(self, queries: Tensor, keys: Tensor, inputs: Tensor) -> PatchBias:
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
        return _attended(self, x, q, k, v, self.patch_bias(q, k, x), attn_mask, is_causal)


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
        return _rotated(self, x, q, k, v, rope, attn_mask, is_causal)


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
        return _rotated(self, x, q, k, v, rope, attn_mask, is_causal)


class GaussianWindowAttention(WindowAttention):
    """timm's Swin attention with GAug inside each window; no prefix tokens."""

    gaug: Gaussian

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        tokens = x.shape[1]
        window = TokenGrid(Grid(*self.window_size), num_prefix=0)
        window.check(tokens)
        qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = separate_heads(qkv)
        whole = self._get_rel_pos_bias()  # [1, head, token, token]
        if mask is not None:
            repeats = x.shape[0] // len(mask)  # number of images; their windows are consecutive
            whole = whole + mask[:, None].repeat(repeats, 1, 1, 1)  # [window, head, token, token]
        return _attended(self, x, q, k, v, self.gaug(q, k, x, window.grid), whole)


class GaussianGlobalAttention(WindowAttentionGlobal):
    """timm's GCViT attention with GAug inside each window.

    In every second layer, all windows of an image share queries that are pooled from the whole
    image. The Gaussian is centred on the patch that gets the row's output, with the width that the
    pooled query asks for.
    """

    gaug: Gaussian

    def forward(self, x: Tensor, q_global: Tensor | None = None) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        num_windows, tokens = x.shape[:2]
        window = TokenGrid(Grid(*self.window_size), num_prefix=0)
        window.check(tokens)
        if self.use_global and q_global is not None:
            kv = self.qkv(x).unflatten(-1, (2, self.num_heads, -1))
            k, v = kv.permute(2, 0, 3, 1, 4)  # [window, head, token, width] each
            shared = q_global.repeat_interleave(num_windows // len(q_global), dim=0)
            q = shared.reshape(num_windows, tokens, self.num_heads, -1).transpose(1, 2)
        else:
            q, k, v = separate_heads(self.qkv(x).unflatten(-1, (3, self.num_heads, -1)))
        bias = self.gaug(q, k, x, window.grid)
        return _attended(self, x, q, k, v, bias, self.rel_pos.get_bias())


class GaussianDavitAttention(DavitWindowAttention):
    """timm's DaViT attention between patches with GAug inside each window."""

    gaug: Gaussian

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        window = TokenGrid(Grid(*self.window_size), num_prefix=0)
        window.check(x.shape[1])
        q, k, v = separate_heads(self.qkv(x).unflatten(-1, (3, self.num_heads, -1)))
        return _attended(self, x, q, k, v, self.gaug(q, k, x, window.grid), None)


def _from_projections(layer: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of a layer that has one linear map for each."""
    q, k, v = (
        project(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for project in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    return q, k, v


def _rotated(
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
    return _attended(layer, x, q, k, v, bias, mask, is_causal)


def _attended(
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
        raise UserError("GAug attends in both directions and does not support is_causal=True")
    dropout = layer.attn_drop.p if layer.training and hasattr(layer, "attn_drop") else 0.0
    out = join_heads(attend(q, k, v, layer.scale, bias, mask, dropout))
    if (norm := getattr(layer, "norm", None)) is not None:
        out = norm(out)
    if (gate := getattr(layer, "gate", None)) is not None:
        out = out * gate(x).sigmoid()
    return layer.proj_drop(layer.proj(out)) if hasattr(layer, "proj_drop") else layer.proj(out)


AUGMENTED: dict[type[nn.Module], type[nn.Module]] = {
    SelfAttention: GaussianSelfAttention,
    Attention: GaussianAttention,
    AttentionRope: GaussianAttentionRope,
    EvaAttention: GaussianEvaAttention,
    WindowAttention: GaussianWindowAttention,
    WindowAttentionGlobal: GaussianGlobalAttention,
    DavitWindowAttention: GaussianDavitAttention,
}
WINDOWED = (WindowAttention, WindowAttentionGlobal, DavitWindowAttention)


def install(layer: Any, tokens: TokenGrid, settings: GaussianSettings, gentle: bool) -> None:
    """Add GAug to an attention module of a class in AUGMENTED.

    ``gentle`` is explained in ``Gaussian.start``.
    """
    window = isinstance(layer, WINDOWED)
    grid = Grid(*layer.window_size) if window else tokens.grid
    if grid.num_patches == 1:
        raise UserError(
            "GAug needs attention between at least 2 patches, but a window of this layer has 1 "
            "patch, where a bias changes nothing"
        )
    weight = layer.proj.weight
    head_width = layer.proj.in_features // layer.num_heads
    gaug = Gaussian(head_width, grid, settings, layer.num_heads)
    gaug.start(gentle)
    layer.gaug = gaug.to(weight.device, weight.dtype).train(layer.training)
    layer.__class__ = AUGMENTED[type(layer)]
    if not window:
        layer.tokens = tokens
