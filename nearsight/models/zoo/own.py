"""Our own models by name: the compact ViT in its sizes, plain, with LocAt, or as a ConViT."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.vit import SIZES, Size, VisionTransformer
from nearsight.protocol import (
    GpsaChoice,
    GpsaSettings,
    LocatSettings,
    gaussian_settings,
    gpsa_settings,
)

GRID_SIDE = 8  # the paper's: 32 pixels in patches of 4, 64 in patches of 8
LOCAT = {  # ends of our names, and what they have of LocAt
    "vit": None,
    "locat": LocatSettings(),
    "gaug": LocatSettings(refine=False),
    "prr": LocatSettings(gaussian=None),
}
GPSA = {"convit": GpsaSettings()}
ENDS = (*LOCAT, *GPSA)
CONVIT_HEADS = {"compact_vit": 4}  # ConViT-Ti's 4 heads of 48, all of them in its 2x2 kernel


def model_names() -> list[str]:
    """Our own names; timm's come on top, and with them those of names.py."""
    return [f"{size.removesuffix('_vit')}_{end}" for end in ENDS for size in SIZES]


def full_name(name: str) -> str:
    """``compact`` -> ``compact_vit``; anything else unchanged."""
    return f"{name}_vit" if f"{name}_vit" in SIZES else name


def own_model(
    name: str,
    num_classes: int,
    image_size: tuple[int, int] | None,
    patch_size: int | None,
    num_heads: Any,
    locat: LocatSettings | None,
    gpsa: GpsaChoice,
    options: dict[str, Any],
    **of_the_vit: Any,
) -> nn.Module:
    """A new model of one of our names; ``options`` may have LocAt's parts, depth and width."""
    base, _, end = name.rpartition("_")
    base = f"{base}_vit"
    parts = _chosen_parts(locat or LOCAT.get(end), options)
    chosen = gpsa_settings(GPSA.get(end) if gpsa is None else gpsa)
    heads = num_heads or (CONVIT_HEADS.get(base) if end in GPSA else None)
    size = _changed(SIZES[base], options.pop("depth", None), options.pop("width", None), heads)
    if options:
        raise UserError(f"{name} takes no option {', '.join(options)}")
    height, width = image_size or (32, 32)
    patch = patch_size or max(1, height // GRID_SIDE)
    model = VisionTransformer(size, num_classes, (height, width), patch, **of_the_vit)
    return with_parts(model, parts, chosen)


def _changed(size: Size, depth: Any, width: Any, heads: Any) -> Size:
    """A size with what is given in its place; another width has an MLP twice as wide."""
    given = {"depth": depth, "width": width, "num_heads": heads}
    if width is not None:
        given["mlp_width"] = 2 * width
    for name, number in given.items():
        if number is not None and not (isinstance(number, int) and number > 0):
            raise UserError(f"expected a positive whole number as {name}, got {number!r}")
    return replace(size, **{name: number for name, number in given.items() if number is not None})


def _chosen_parts(locat: LocatSettings | None, options: dict[str, Any]) -> LocatSettings | None:
    """The parts of LocAt after ``gaussian=`` and ``refine=``, taken out of the options."""
    gaussian = options.pop("gaussian", locat.gaussian if locat else None)
    refine = bool(options.pop("refine", locat.refine if locat else False))
    settings = gaussian_settings(gaussian)
    return LocatSettings(gaussian=settings, refine=refine) if settings or refine else None


def with_parts(
    model: nn.Module, locat: LocatSettings | None, gpsa: GpsaSettings | None
) -> nn.Module:
    """The model with the parts that are on, at the start for training from scratch."""
    if gpsa is not None and locat is not None and locat.gaussian is not None:
        raise UserError("expected GAug or GPSA in a model's attention, got both; leave out one")
    if gpsa is not None:
        from nearsight.models.parts.gpsa import add_gpsa

        model = add_gpsa(model, settings=gpsa)
    if locat is None or not (locat.gaussian or locat.refine):
        return model
    from nearsight.models.parts.locat import add_locat

    return add_locat(model, locat.gaussian, locat.refine, published_start=True)
