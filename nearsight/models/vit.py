"""The compact Vision Transformer of the protocol paper.

It has pre-LN blocks, a class token [CLS], learnable positions of all tokens, GELU, no dropout, a
final LayerNorm, and a linear head on [CLS]. The width 192 and the MLP width 384 are inferred from
the paper's "2.4M parameters, 8 layers, 8 heads". Weights have timm's names, so that each library
loads the other's weights.

Our model has options that the paper's lacks: images of any size, with positions resampled as in
timm; register tokens (Darcet et al. 2024); average pooling of the patches; no positional embedding;
drop path; a pooling layer in ``attn_pool`` (LocAt's refinement); and a distillation token after
[CLS] with its own head (Touvron et al. 2021), as in timm's DeiT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import Grid, SelfAttention

declare_missing_ops()

from timm.layers import DropPath, resample_abs_pos_embed  # noqa: E402


@dataclass(frozen=True)
class Size:
    """The depth, widths and number of heads of one of our models."""

    depth: int
    width: int
    num_heads: int
    mlp_width: int


SIZES = {
    "compact_vit": Size(depth=8, width=192, num_heads=8, mlp_width=384),  # the paper's model
    "nano_vit": Size(
        depth=4, width=96, num_heads=4, mlp_width=192
    ),  # for the demo; same head width
    "mu_vit": Size(depth=2, width=22, num_heads=2, mlp_width=46),  # for tests
}

Pool = Literal["token", "avg"]
Logits = Float[Tensor, "batch cls"]
NORM_EPS = 1e-6  # timm's, so that logits agree; torch's default is 1e-5


def rates_by_depth(rate: float, depth: int) -> list[float]:
    """Return the stochastic depth rate (Huang et al. 2016) of every block, from 0 up to ``rate``.

    >>> rates_by_depth(0.5, 5)
    [0.0, 0.125, 0.25, 0.375, 0.5]
    """
    if not 0 <= rate < 1:
        raise UserError(f"drop_path is {rate}, but it must be at least 0 and less than 1")
    return [rate * block / max(1, depth - 1) for block in range(depth)]


class PatchEmbed(nn.Module):
    """Cut images into patches and embed them, by a convolution whose stride is its kernel size."""

    def __init__(self, patch_size: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch_size, patch_size)

    def dynamic_feat_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the rows and columns of patches of an image, as timm's patch embedding does."""
        grid = Grid.of_image(*size, self.proj.kernel_size[0])
        return grid.rows, grid.cols

    def forward(self, images: Float[Tensor, "batch 3 h w"]) -> Float[Tensor, "batch patch width"]:
        """Return one token per patch."""
        return self.proj(images).flatten(2).transpose(1, 2)


class Mlp(nn.Module):
    """Two linear maps with a GELU between them, applied to every token separately."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the MLP to every token."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """Attention, then an MLP. Each normalises its input and adds its output to the tokens."""

    def __init__(self, size: Size, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=NORM_EPS)
        self.attn = SelfAttention(size.width, size.num_heads)
        self.norm2 = nn.LayerNorm(size.width, eps=NORM_EPS)
        self.mlp = Mlp(size.width, size.mlp_width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Apply attention and the MLP, each with its residual connection."""
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """A plain ViT; ``grid`` and ``num_prefix`` tell where its tokens are on the image.

    Args:
        size: Depth, widths and number of heads.
        num_classes: Number of classes.
        image_size: Height and width of the images in pixels.
        patch_size: Side of a patch in pixels.
        num_registers: Number of register tokens.
        pool: What the head reads: the class token or the mean of the patches.
        positions: Whether there are positional embeddings.
        distilled: Whether there is a distillation token with its own head.
        drop_path: Largest rate of stochastic depth.
        any_size: Whether the model also takes images of other sizes.
    """

    def __init__(
        self,
        size: Size,
        num_classes: int,
        image_size: tuple[int, int],
        patch_size: int,
        num_registers: int = 0,
        pool: Pool = "token",
        positions: bool = True,
        distilled: bool = False,
        drop_path: float = 0.0,
        any_size: bool = False,
    ) -> None:
        super().__init__()
        self.any_size = any_size
        if num_registers < 0:
            raise UserError(f"num_registers is {num_registers}, but it must be at least 0")
        if pool not in get_args(Pool):
            raise UserError(f"pool is {pool!r}, but it must be {' or '.join(get_args(Pool))}")
        if distilled and pool != "token":
            raise UserError(
                f"pool is {pool!r}, but a model with a distillation token pools by its class and "
                "distillation tokens; leave out pool, or distilled"
            )
        self.pool = pool
        self.attn_pool: nn.Module | None = None
        self.grid = Grid.of_image(*image_size, patch_size)
        self.image_size = image_size
        self.num_prefix = 1 + distilled + num_registers
        self.patch_embed = PatchEmbed(patch_size, size.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size.width))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, size.width)) if distilled else None
        self.reg_token = (
            nn.Parameter(torch.zeros(1, num_registers, size.width)) if num_registers else None
        )
        num_tokens = self.num_prefix + self.grid.num_patches
        self.pos_embed = nn.Parameter(torch.zeros(1, num_tokens, size.width)) if positions else None
        self.blocks = nn.ModuleList(Block(size, x) for x in rates_by_depth(drop_path, size.depth))
        self.norm = nn.LayerNorm(size.width, eps=NORM_EPS)
        self.head = nn.Linear(size.width, num_classes)
        self.head_dist = nn.Linear(size.width, num_classes) if distilled else None
        self.distilled_training = False
        self.apply(_initialise)
        for token in (self.cls_token, self.dist_token, self.reg_token, self.pos_embed):
            if token is not None:
                nn.init.trunc_normal_(token, std=0.02)

    def forward_features(
        self, images: Float[Tensor, "batch 3 h w"]
    ) -> Float[Tensor, "batch token width"]:
        """Return all tokens after the final norm, prefix tokens first."""
        if images.shape[-2:] != self.image_size and not self.any_size:
            raise UserError(
                f"the images have {images.shape[-2]}x{images.shape[-1]} pixels, but the model is "
                f"built for {self.image_size[0]}x{self.image_size[1]}; resize them, or create the "
                "model with image_size= or any_size=True"
            )
        patches = self.patch_embed(images)  # [batch, patch, width]
        prefix = (self.cls_token, self.dist_token, self.reg_token)
        tokens = [x.expand(patches.shape[0], -1, -1) for x in prefix if x is not None]
        x = torch.cat([*tokens, patches], dim=1)  # [batch, token, width]
        if self.pos_embed is not None:
            rows, cols = self.patch_embed.dynamic_feat_size((images.shape[2], images.shape[3]))
            x = x + self._positions(rows, cols)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _positions(self, rows: int, cols: int) -> Float[Tensor, "1 token width"]:
        """Return the positional embeddings, resampled if the grid is not the model's own."""
        assert self.pos_embed is not None
        if (rows, cols) == (self.grid.rows, self.grid.cols):
            return self.pos_embed
        own = [self.grid.rows, self.grid.cols]
        return resample_abs_pos_embed(
            self.pos_embed, [rows, cols], own, num_prefix_tokens=self.num_prefix
        )

    def forward(self, images: Float[Tensor, "batch 3 h w"]) -> Logits | tuple[Logits, Logits]:
        """Return the logits of images; see ``forward_head``."""
        return self.forward_head(self.forward_features(images))

    def forward_head(
        self, x: Float[Tensor, "batch token width"], pre_logits: bool = False
    ) -> Tensor | tuple[Logits, Logits]:
        """Return the logits of tokens that ``forward_features`` returned.

        Args:
            x: The tokens.
            pre_logits: Return what the head reads instead, as timm's models do.

        Returns:
            The logits. With a distillation token they are the mean over both heads, or, while
                training after ``set_distilled_training``, the logits of each head.
        """
        if pre_logits:
            return self._pooled(x)
        if self.head_dist is not None:
            of_class, of_teacher = self.head(x[:, 0]), self.head_dist(x[:, 1])
            if self.distilled_training and self.training:
                return of_class, of_teacher
            return (of_class + of_teacher) / 2
        return self.head(self._pooled(x))

    def _pooled(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch width"]:
        """Return what the head reads."""
        if self.head_dist is not None:
            return (x[:, 0] + x[:, 1]) / 2
        if self.attn_pool is not None:
            return self.attn_pool(x)
        return x[:, 0] if self.pool == "token" else x[:, self.num_prefix :].mean(1)

    def set_distilled_training(self, enable: bool = True) -> None:
        """Choose whether the model returns the logits of both heads while it trains, as in timm."""
        if self.head_dist is None:
            raise UserError("this model has no distillation token; create it with distilled=True")
        self.distilled_training = enable


def _initialise(module: nn.Module) -> None:
    """Draw weights from a truncated normal of deviation 0.02, and set biases to 0."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
