"""LocAt on any backbone (arXiv 2603.04892): GAug in its attention, PRR before its head.

``add_locat`` changes a model in place: attention modules become their subclasses with GAug
(backbones.py), and ``Refine`` replaces the pooling layer (pooling.py). Weights of the backbone and
their names stay. Where we differ from the published code: theirs is a copy of each backbone; ours
works on timm's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torch import nn

from nearsight.core import UserError
from nearsight.models.layers import Grid
from nearsight.models.parts.locat.backbones import (
    attention_layers,
    install,
    is_windowed,
    token_grid,
    unchanged_note,
)
from nearsight.models.parts.locat.pooling import pooling_slot
from nearsight.models.parts.locat.refinement import Refine
from nearsight.models.parts.locat.window_attention import window_of
from nearsight.models.parts.part import marked_parts
from nearsight.protocol import GaussianChoice, gaussian_settings

log = logging.getLogger("nearsight")


@dataclass(frozen=True)
class LocatChanges:
    """What ``add_locat`` changed in a model; ``model.locat`` holds it."""

    layers: tuple[str, ...]  # attention modules that got GAug
    num_parameters: int  # how many parameters were added
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
    DaViT, Twins, NesT, TinyViT, and GCViT, on which the paper saw no gain), and our own. By default
    GAug starts so weak that attention logits move by at most 0.0025, so a trained model hardly
    changes. PRR has no weak start.

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
        raise UserError(f"LocAt is added to a model (torch.nn.Module), but {model!r} is not one")
    if has_locat(model):
        raise UserError(f"{type(model).__name__} already has LocAt; create a model without it")
    tokens = token_grid(model)
    layers = attention_layers(model) if settings else []
    slot = pooling_slot(model) if refine else None  # all checks come before any change
    before = sum(parameter.numel() for parameter in model.parameters())
    for _, layer in layers:
        assert settings is not None
        grid = window_of(layer, model) if is_windowed(model) else tokens.grid
        install(layer, tokens, grid, settings, gentle=not published_start)
    if layers and (hasattr(model, "num_prefix_tokens") or getattr(model, "any_size", False)):
        model.get_submodule("patch_embed").register_forward_pre_hook(tokens.see_images)
    if slot:
        slot.fill()
    changes = LocatChanges(
        layers=tuple(name for name, _ in layers),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()) - before,
        grid=None if is_windowed(model) else tokens.grid,
        num_prefix=tokens.num_prefix,
        refined=slot.name if slot else None,
        notes=(*(unchanged_note(model) if layers else ()), *(slot.notes if slot else ())),
    )
    model.locat = changes  # type: ignore[assignment]
    log.info("LocAt: %s", changes)
    return model


def from_scratch(model: nn.Module, gaussian: GaussianChoice, refine: bool) -> None:
    """Add GAug and PRR, if requested, to a new model, initialised as published.

    Args:
        model: The model to change.
        gaussian: Whether to add GAug, or its settings.
        refine: Whether to add PRR.
    """
    if gaussian_settings(gaussian) is not None or refine:
        add_locat(model, gaussian, refine, published_start=True)


def has_locat(model: nn.Module) -> bool:
    """Return whether a model has LocAt."""
    return Refine.part_title in marked_parts(model)
