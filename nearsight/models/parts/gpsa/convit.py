"""ConViT (d'Ascoli et al. 2021, arXiv 2103.10697): GPSA in the first layers of a plain ViT.

``add_gpsa`` changes a model (ours or timm's) in place: the attention of its first blocks becomes
GPSA, initialised as a convolution. These blocks see patches only. Prefix tokens pass through them
unchanged, which is equivalent to adding them to the patches after the last of these blocks.

Where we differ from the published code: theirs is a separate model, while ours changes any plain
ViT and keeps all its options. If every layer has GPSA, the class token never sees a patch, so the
head reads the mean of the patches instead.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.layers import Grid, SelfAttention, TokenGrid
from nearsight.models.parts.gpsa.gpsa import GATE_FROZEN, GPSA
from nearsight.models.parts.part import marked_parts
from nearsight.models.vit import Block, VisionTransformer
from nearsight.protocol import GpsaChoice, GpsaSettings, gpsa_settings

declare_missing_ops()

from timm.layers.attention import Attention  # noqa: E402
from timm.models.vision_transformer import Block as TimmBlock  # noqa: E402
from timm.models.vision_transformer import VisionTransformer as TimmViT  # noqa: E402

log = logging.getLogger("nearsight")

PLAIN_LAYERS = 2  # by default the last two layers stay plain, so that the class token sees patches


@dataclass(frozen=True)
class GpsaChanges:
    """What ``add_gpsa`` changed in a model; ``model.gpsa`` holds it."""

    layers: tuple[str, ...]  # attention modules that became GPSA
    num_parameters: int  # how many parameters were added
    grid: Grid  # the initial grid
    num_heads: int
    kernel_side: int
    settings: GpsaSettings
    notes: tuple[str, ...] = ()

    @property
    def heads_beyond(self) -> int:
        """Number of heads of a layer that have no place in the square kernel."""
        return self.num_heads - self.kernel_side**2

    def __str__(self) -> str:
        kind = "GPSA" if self.settings.mixing == "gated" else "PSA"
        num = len(self.layers)
        parts = [f"{kind} in {num} layer{'s' * (num != 1)} on a grid of {self.grid}"]
        if num and self.settings.convolution:
            side, strength = self.kernel_side, self.settings.strength
            parts.append(f"started as a {side}x{side} convolution of strength {strength:g}")
            if self.heads_beyond:
                parts.append(
                    f"{self.heads_beyond} of {self.num_heads} heads beyond the kernel, at random"
                )
        return "; ".join([*parts, *self.notes])


class _PatchesOnly:
    """A block that processes the patches and passes prefix tokens through unchanged."""

    carries_prefix = True

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        first = self.attn.tokens.num_prefix  # type: ignore[attr-defined]
        if not first:
            return super().forward(x, **options)  # type: ignore[misc]
        patches = super().forward(x[:, first:], **options)  # type: ignore[misc]
        return torch.cat([x[:, :first], patches], 1)


class PatchBlock(_PatchesOnly, Block):
    """Our block, for patches only."""


class TimmPatchBlock(_PatchesOnly, TimmBlock):  # type: ignore[misc]
    """timm's block, for patches only."""


BLOCKS: dict[type[nn.Module], type[nn.Module]] = {Block: PatchBlock, TimmBlock: TimmPatchBlock}


def add_gpsa(
    model: nn.Module,
    layers: int | None = None,
    locality_strength: float = 1.0,
    *,
    settings: GpsaChoice = None,
) -> nn.Module:
    """Add GPSA to the first layers of a model in place; ``model.gpsa`` records what was changed.

    It supports the plain ViT of timm (with any prefix tokens, or none) and ours. Queries, keys and
    the output keep the model's weights; values start as the identity.

    Args:
        model: The model to change.
        layers: How many layers get GPSA; by default all but the last two.
        locality_strength: How sharply heads start as a convolution: the larger, the more of a
            head's attention goes to a single patch.
        settings: Both options, and those of the ablations, in one object. The two arguments above
            are then ignored.

    Raises:
        UserError: If the model is not a plain ViT, or already has GPSA.

    >>> from nearsight.models.load.registry import create_model
    >>> print(add_gpsa(create_model("nano_vit")).gpsa)
    GPSA in 2 layers on a grid of 8x8; started as a 2x2 convolution of strength 1
    """
    chosen = gpsa_settings(settings or {"layers": layers, "strength": locality_strength})
    assert chosen is not None
    tokens = _tokens(model)
    blocks: Any = model.blocks
    num = max(1, len(blocks) - PLAIN_LAYERS) if chosen.layers is None else chosen.layers
    if num > len(blocks):
        raise UserError(f"layers is {num}, but the model has only {len(blocks)} layers for GPSA")
    for index, block in enumerate(blocks[:num]):
        _check_block(block, f"blocks.{index}")
    notes = _head_of_patches(model) if num == len(blocks) else ()
    if chosen.convolution and any(_is_narrowed(block.attn) for block in blocks[:num]):
        notes = (*notes, "values keep their start: the heads together have another width")
    before = sum(parameter.numel() for parameter in model.parameters())
    for block in blocks[:num]:
        block.attn = _gpsa_from(block.attn, tokens, chosen)
        block.__class__ = BLOCKS[type(block)]
    if num and (isinstance(model, TimmViT) or model.any_size):
        model.get_submodule("patch_embed").register_forward_pre_hook(tokens.see_images)
    heads = blocks[0].attn.num_heads
    model.gpsa = GpsaChanges(  # type: ignore[assignment]
        layers=tuple(f"blocks.{index}.attn" for index in range(num)),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()) - before,
        grid=tokens.grid,
        num_heads=heads,
        kernel_side=math.isqrt(heads),
        settings=chosen,
        notes=notes,
    )
    log.info("ConViT: %s", model.gpsa)
    return model


def _tokens(model: Any) -> TokenGrid:
    """Return where the tokens of a plain ViT are.

    Raises:
        UserError: If the model is anything else.
    """
    if not isinstance(model, VisionTransformer | TimmViT):
        kind = f"{type(model).__name__} of {type(model).__module__.split('.')[0]}"
        raise UserError(
            f"GPSA can be added only to plain ViTs of timm or nearsight, but {kind} arranges its "
            "tokens in another way; choose a plain ViT"
        )
    parts = marked_parts(model)
    if others := [title for title in parts if title != GPSA.part_title]:
        raise UserError(
            f"GPSA can be added only to plain ViTs, but this model already has "
            f"{' and '.join(others)}; create a model without it"
        )
    if parts:
        raise UserError(f"{type(model).__name__} already has GPSA; create a model without it")
    if isinstance(model, VisionTransformer):
        return TokenGrid(model.grid, model.num_prefix)
    if getattr(model.patch_drop, "prob", 0):
        raise UserError(
            f"GPSA needs all patches in every layer, but the model has patch dropout "
            f"{model.patch_drop.prob}; build it with patch_drop_rate=0"
        )
    grid: Any = model.patch_embed.grid_size
    return TokenGrid(Grid(*grid), model.num_prefix_tokens)


def _check_block(block: nn.Module, name: str) -> None:
    """Raise a UserError unless the attention of a block can become GPSA."""
    attention = getattr(block, "attn", None)
    if type(block) not in BLOCKS or type(attention) not in (SelfAttention, Attention):
        raise UserError(
            f"GPSA needs plain blocks with plain attention, but {name} is a {type(block).__name__} "
            f"with {type(attention).__name__}; choose a plain ViT"
        )
    if getattr(attention, "gate", None) is not None:
        raise UserError(
            f"GPSA cannot be added to {name}, because its attention already has a gate; choose a "
            "plain ViT"
        )


def _is_narrowed(layer: Any) -> bool:
    """Return whether all heads together are narrower than the model.

    Values then cannot start as the identity.
    """
    return layer.qkv.out_features != 3 * layer.qkv.in_features


def _gpsa_from(layer: Any, tokens: TokenGrid, settings: GpsaSettings) -> GPSA:
    """Return GPSA with the weights of plain attention, initialised as the settings say."""
    weight, inner = layer.qkv.weight, layer.qkv.out_features // 3
    gpsa = GPSA(
        layer.proj.out_features,
        layer.num_heads,
        tokens,
        bias=layer.qkv.bias is not None,
        mixing=settings.mixing,
        inner_width=inner,
    ).to(weight.device, weight.dtype)
    with torch.no_grad():
        for part in ("weight", "bias"):
            theirs = getattr(layer.qkv, part)
            if theirs is not None:
                getattr(gpsa.qk, part).copy_(theirs[: 2 * inner])
                getattr(gpsa.v, part).copy_(theirs[2 * inner :])
        if settings.convolution:
            gpsa.start_as_convolution(settings.strength)
        if gpsa.gating_param is not None and not settings.train_gates:
            gpsa.gating_param.fill_(GATE_FROZEN).requires_grad_(False)
    for name in ("proj", "q_norm", "k_norm", "norm", "attn_drop", "proj_drop"):
        if hasattr(layer, name):
            setattr(gpsa, name, getattr(layer, name))
    if not settings.train_attention:
        gpsa.requires_grad_(False)
    return gpsa.train(layer.training)


def _head_of_patches(model: Any) -> tuple[str, ...]:
    """Make the head read the patches, and return notes about it.

    It is called if all layers have GPSA, so that no prefix token sees a patch.
    """
    own = isinstance(model, VisionTransformer)
    if (model.pool if own else model.global_pool) != "token":
        return ()
    if getattr(model, "dist_token", None) is not None:
        raise UserError(
            f"GPSA in all {len(model.blocks)} layers leaves none in which the class and "
            "distillation tokens see the patches; choose fewer layers"
        )
    setattr(model, "pool" if own else "global_pool", "avg")
    return ("no layer is left for the class token: the head reads the mean of the patches",)
