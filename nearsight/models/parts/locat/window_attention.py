"""Add GAug to the attention that timm's models compute inside windows.

As in gaussian_attention.py, each class is its parent plus the layer ``gaug``, and ``install`` turns
an instance of the parent into it in place. There are no prefix tokens. Windows are folded into the
batch.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import Grid, TokenGrid, attend, join_heads, separate_heads
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.gaussian_attention import attend_and_project

declare_missing_ops()

from timm.models.davit import WindowAttention as DavitWindowAttention  # noqa: E402
from timm.models.gcvit import WindowAttentionGlobal  # noqa: E402
from timm.models.nest import Attention as NestAttention  # noqa: E402
from timm.models.swin_transformer import WindowAttention  # noqa: E402
from timm.models.tiny_vit import Attention as TinyVitAttention  # noqa: E402
from timm.models.twins import LocallyGroupedAttn  # noqa: E402


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
            repeats = x.shape[0] // len(mask)  # number of images; each has consecutive windows
            whole = whole + mask[:, None].repeat(repeats, 1, 1, 1)  # [window, head, token, token]
        return attend_and_project(self, x, q, k, v, self.gaug(q, k, x, window.grid), whole)


class GaussianGlobalAttention(WindowAttentionGlobal):
    """timm's GCViT attention with GAug inside each window.

    In every second layer, all windows of an image share queries that are pooled from the whole
    image. The Gaussian of a row is centred on the patch that gets the row's output, and its width
    is predicted from the pooled query.
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
        return attend_and_project(self, x, q, k, v, bias, self.rel_pos.get_bias())


class GaussianDavitAttention(DavitWindowAttention):
    """timm's DaViT attention between patches with GAug inside each window."""

    gaug: Gaussian

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        window = TokenGrid(Grid(*self.window_size), num_prefix=0)
        window.check(x.shape[1])
        q, k, v = separate_heads(self.qkv(x).unflatten(-1, (3, self.num_heads, -1)))
        return attend_and_project(self, x, q, k, v, self.gaug(q, k, x, window.grid), None)


class GaussianNestAttention(NestAttention):
    """timm's NesT attention with GAug inside each block of the map."""

    gaug: Gaussian

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        blocks = x.flatten(0, 1)  # [image * block, token, width]
        q, k, v = separate_heads(self.qkv(blocks).unflatten(-1, (3, self.num_heads, -1)))
        bias = self.gaug(q, k, blocks, self.gaug.grid)
        dropout = self.attn_drop.p if self.training else 0.0
        out = attend(q, k, v, self.scale, bias, None, dropout)
        out = out.permute(0, 2, 3, 1).flatten(2)  # the weights of timm's NesT expect heads last
        return self.proj_drop(self.proj(out)).unflatten(0, x.shape[:2])


class GaussianTwinsAttention(LocallyGroupedAttn):
    """timm's Twins-SVT attention with GAug inside each window; the map is padded as in timm."""

    gaug: Gaussian

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        (rows, cols), side = size, self.ws
        padding = (0, 0, 0, -cols % side, 0, -rows % side)
        padded = F.pad(x.unflatten(1, (rows, cols)), padding)
        cut = padded.unflatten(2, (-1, side)).unflatten(1, (-1, side)).transpose(2, 3)
        windows = cut.flatten(3, 4).flatten(0, 2)  # [image * down * right, row * col, width]
        q, k, v = separate_heads(self.qkv(windows).unflatten(-1, (3, self.num_heads, -1)))
        bias = self.gaug(q, k, windows, self.gaug.grid)
        out = attend_and_project(self, windows, q, k, v, bias, None).view_as(cut).transpose(2, 3)
        return out.reshape(padded.shape)[:, :rows, :cols].flatten(1, 2)


class GaussianTinyVitAttention(TinyVitAttention):
    """timm's TinyViT attention with GAug inside each window, in addition to its own bias."""

    gaug: Gaussian

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of attention with the Gaussian bias."""
        x = self.norm(x)
        by_head = self.qkv(x).unflatten(-1, (self.num_heads, 3, -1))
        q, k, v = by_head.permute(3, 0, 2, 1, 4)  # [window, head, token, width] each
        bias = self.gaug(q, k, x, self.gaug.grid)
        by_offset = self.get_attention_biases(x.device)[None]  # [1, head, token, token]
        return self.proj(join_heads(attend(q, k, v, self.scale, bias, by_offset)))


def window_of(layer: Any, model: Any) -> Grid:
    """Return the rows and columns of patches in a window of an attention module of a model."""
    if isinstance(layer, LocallyGroupedAttn):
        return Grid(layer.ws, layer.ws)
    if isinstance(layer, NestAttention):
        return Grid(model.block_size, model.block_size)
    return Grid(*(layer.resolution if isinstance(layer, TinyVitAttention) else layer.window_size))
