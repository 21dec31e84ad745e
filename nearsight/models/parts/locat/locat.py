"""LocAt on any backbone (arXiv 2603.04892): GAug in its attention, PRR before its head.

``add_locat`` changes a model in place: attention modules become their subclasses with GAug
(gaussian_attention.py), and ``Refine`` replaces the pooling layer. Weights of the backbone and
their names stay. Where we differ from the published code: theirs is a copy of each backbone; ours
works on timm's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.layers import Grid, TokenGrid
from nearsight.models.parts.locat.gaussian_attention import AUGMENTED, WINDOWED, install
from nearsight.models.parts.locat.refinement import Refine, RefineMap
from nearsight.models.parts.part import marked_parts
from nearsight.models.vit import VisionTransformer
from nearsight.protocol import GaussianChoice, gaussian_settings

log = logging.getLogger("nearsight")

NOT_SERVED = {  # classes of attention to which no bias between patches can be added
    "XCA": "it attends between channels",
    "ChannelAttention": "it attends between channels",
    "LiteMLA": "its attention is linear and has no logits",
    "LinearAttention": "its attention is linear and has no logits",
}


# Blocks of GCViT and DaViT that have no attention between patches.
OTHER_BLOCKS = ("MbConvBlock", "FeatureBlock", "ChannelBlock")
SERVED = "timm's ViT, EVA, RoPE ViT, Swin, GCViT and DaViT"


@dataclass(frozen=True)
class LocatChanges:
    """What ``add_locat`` did to a model; ``model.locat`` holds it."""

    layers: tuple[str, ...]  # attention modules that got GAug
    num_parameters: int  # that were added
    grid: Grid | None  # the initial grid, if all layers have the same
    num_prefix: int
    refined: str | None  # name of the module that pools with PRR
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.layers:
            where = f"on a grid of {self.grid}" if self.grid else "inside its windows"
            parts.append(
                f"GAug in {len(self.layers)} layers {where}, {self.num_parameters:,} parameters"
            )
        if self.refined:
            parts.append(f"PRR before the head ({self.refined})")
        return "; ".join([*parts, *self.notes])


def add_locat(
    model: nn.Module,
    gaussian: GaussianChoice = True,
    refine: bool = True,
    published_start: bool = False,
) -> nn.Module:
    """Add GAug and PRR to a model in place; ``model.locat`` records what was changed.

    It supports timm's ViT (with any prefix tokens), EVA and RoPE ViT, models with windows (Swin,
    DaViT, and GCViT, on which the paper saw no gain), and our own. By default GAug starts so weak
    that attention logits move by at most 0.0025, so a trained model hardly changes. PRR has no weak
    start.

    Args:
        model: The model to change.
        gaussian: Whether to add GAug, or its settings.
        refine: Whether to add PRR, or its settings.
        published_start: Initialise GAug as the authors do, for training from scratch.

    Raises:
        UserError: If the model is not supported, or already has LocAt.

    >>> from nearsight.models.load.registry import create_model
    >>> model = add_locat(create_model("mu"))
    >>> print(model.locat)
    GAug in 2 layers on a grid of 8x8, 72 parameters; PRR before the head (attn_pool)
    """
    settings = gaussian_settings(gaussian)
    if settings is None and not refine:
        raise UserError("gaussian=False and refine=False leave nothing to add; set one of them")
    if not isinstance(model, nn.Module):
        raise UserError(f"LocAt is added to a model (nn.Module), but {model!r} is not one")
    if has_locat(model):
        raise UserError(f"{type(model).__name__} already has LocAt; create a model without it")
    tokens = _token_grid(model)
    layers = _attention_layers(model) if settings else []
    slot = _pooling_slot(model) if refine else None  # all checks come before any change
    before = sum(parameter.numel() for parameter in model.parameters())
    for _, layer in layers:
        assert settings is not None
        install(layer, tokens, settings, gentle=not published_start)
    if layers and (hasattr(model, "num_prefix_tokens") or getattr(model, "any_size", False)):
        model.get_submodule("patch_embed").register_forward_pre_hook(tokens.see_images)
    if slot:
        slot.fill()
    changes = LocatChanges(
        layers=tuple(name for name, _ in layers),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()) - before,
        grid=None if _is_windowed(model) else tokens.grid,
        num_prefix=tokens.num_prefix,
        refined=slot.name if slot else None,
        notes=slot.notes if slot else (),
    )
    model.locat = changes  # type: ignore[assignment]
    log.info("LocAt: %s", changes)
    return model


def from_scratch(model: nn.Module, gaussian: GaussianChoice, refine: bool) -> None:
    """Add the requested parts to a new model, at the published start."""
    if gaussian_settings(gaussian) is not None or refine:
        add_locat(model, gaussian, refine, published_start=True)


def has_locat(model: nn.Module) -> bool:
    """Tell whether a model has LocAt."""
    return Refine.part_title in marked_parts(model)


def _is_windowed(model: nn.Module) -> bool:
    from timm.models.davit import DaVit
    from timm.models.gcvit import GlobalContextVit
    from timm.models.swin_transformer import SwinTransformer

    return isinstance(model, SwinTransformer | GlobalContextVit | DaVit)


def _token_grid(model: Any) -> TokenGrid:
    """Return where the tokens of a backbone are."""
    from timm.models.eva import Eva
    from timm.models.vision_transformer import VisionTransformer as TimmViT

    if isinstance(model, VisionTransformer):
        return TokenGrid(model.grid, model.num_prefix)
    if _is_windowed(model):
        return TokenGrid(Grid(*_windowed_layers(model)[0].window_size), 0)
    if not isinstance(model, TimmViT | Eva):
        reasons = (NOT_SERVED.get(type(module).__name__) for module in model.modules())
        reason = next(filter(None, reasons), "its arrangement of tokens is not known")
        raise UserError(
            f"LocAt can be added to {SERVED} and to nearsight's models, but not to "
            f"{type(model).__name__} of {type(model).__module__.split('.')[0]}: {reason}"
        )
    if getattr(model.patch_drop, "prob", 0):
        raise UserError(
            "LocAt needs all patches in every layer, but the model has patch dropout "
            f"{model.patch_drop.prob}; build it with patch_drop_rate=0"
        )
    return TokenGrid(Grid(*model.patch_embed.grid_size), model.num_prefix_tokens)


def _windowed_layers(model: nn.Module) -> list[Any]:
    """Return the attention modules of a model with windows, the last stage last."""
    return [module for module in model.modules() if isinstance(module, WINDOWED)]


def _attention_layers(model: Any) -> list[tuple[str, nn.Module]]:
    """Return the attention modules to which GAug can be added; every block must have one."""
    layers = [(name, x) for name, x in model.named_modules() if type(x) in AUGMENTED]
    kinds = {name: type(x).__name__ for name, x in model.named_modules()}
    blocks = [x for x, kind in kinds.items() if kind.endswith("Block") and kind not in OTHER_BLOCKS]
    for block in blocks:
        if not any(name.startswith(f"{block}.") for name, _ in layers):
            raise UserError(
                f"LocAt needs attention of {SERVED} in every block, but "
                f"{block} ({type(model.get_submodule(block)).__name__}) has its own"
            )
    return layers


@dataclass(frozen=True)
class _Slot:
    """The pooling modules of a model, and what replaces them."""

    owner: nn.Module
    name: str
    modules: dict[str, nn.Module]  # by attribute
    notes: tuple[str, ...] = ()

    def fill(self) -> None:
        for attribute, module in self.modules.items():
            setattr(self.owner, attribute, module.train(self.owner.training))
        if hasattr(self.owner, "pool_include_prefix"):
            self.owner.pool_include_prefix = True  # type: ignore[assignment]


def _pooling_slot(model: Any) -> _Slot:
    if _is_windowed(model):
        pool = model.head.global_pool
        of_map = RefineMap(
            _windowed_layers(model)[-1].num_heads,
            pool.pool_type,
            channels_first=getattr(model, "output_fmt", "NCHW") == "NCHW",
            keep_map=not isinstance(getattr(model.head, "norm", nn.Identity()), nn.Identity),
        )
        return _Slot(model.head, "head.global_pool", {"global_pool": of_map})
    if getattr(model, "head_dist", None) is not None:
        raise UserError(
            "PRR needs a single head, but this distilled model has two heads that read two tokens; "
            "set refine=False"
        )
    if getattr(model, "attn_pool", None) is not None:
        raise UserError(
            "PRR needs a model that pools by class token or average, but this one pools by "
            "attention; set refine=False"
        )
    if hasattr(model, "refine_modules"):  # Jumbo
        notes = ("the norm of the patches before PRR is new too",)
        return _Slot(model, "attn_pool", model.refine_modules(), notes)
    heads = model.blocks[-1].attn.num_heads
    own = isinstance(model, VisionTransformer)
    pool = model.pool if own else model.global_pool
    num_prefix = model.num_prefix if own else model.num_prefix_tokens
    pooling = Refine(heads, pool, 0 if getattr(model, "pool_include_prefix", False) else num_prefix)
    normed_after = not isinstance(getattr(model, "fc_norm", nn.Identity()), nn.Identity)
    notes = ("PRR comes before the norm, which this model applies after pooling",)
    return _Slot(model, "attn_pool", {"attn_pool": pooling}, notes if normed_after else ())
