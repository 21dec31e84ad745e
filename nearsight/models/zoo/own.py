"""Our own models by name: the compact ViT in its sizes, plain, with LocAt, or as a ConViT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.parts import choose_parts, install_parts
from nearsight.models.vit import SIZES, Size, VisionTransformer

GRID_SIDE = 8  # the paper's: 32 pixels in patches of 4, 64 in patches of 8
ENDS: dict[str, dict[str, Any]] = {  # endings of our names, and the parts that they stand for
    "vit": {},
    "locat": {"locat": True},
    "gaug": {"locat": {"refine": False}},
    "prr": {"locat": {"gaussian": False}},
    "convit": {"gpsa": True},
}
CONVIT_HEADS = {"compact_vit": 4}  # ConViT-Ti's 4 heads of 48, all of them in its 2x2 kernel
END_HEADS = {"convit": CONVIT_HEADS}  # by ending: numbers of heads that differ from the size's


def model_names() -> list[str]:
    """Return the names of our own models, without the published ones of names.py."""
    return [f"{size.removesuffix('_vit')}_{end}" for end in ENDS for size in SIZES]


def full_name(name: str) -> str:
    """Return the full form of one of our short names (``compact_vit`` for ``compact``).

    Other names are returned unchanged.
    """
    return f"{name}_vit" if f"{name}_vit" in SIZES else name


def own_model(
    name: str,
    num_classes: int,
    image_size: tuple[int, int] | None,
    patch_size: int | None,
    num_heads: Any,
    parts: Mapping[str, Any],
    options: dict[str, Any],
    **of_the_vit: Any,
) -> nn.Module:
    """Build a model by one of our names.

    Args:
        name: The full name, such as ``compact_vit``.
        num_classes: Number of classes.
        image_size: Height and width; by default 32 x 32.
        patch_size: Side of a patch; by default an eighth of the height.
        num_heads: Number of heads, instead of the number that the name stands for.
        parts: What was asked for, by name of the part; see ``choose_parts``.
        options: Depth, width and options of parts.
        **of_the_vit: Further arguments of ``VisionTransformer``.

    Raises:
        UserError: If an option is unknown or wrong.
    """
    base, _, end = name.rpartition("_")
    base = f"{base}_vit"
    chosen = choose_parts(parts, ENDS[end], options)
    heads = END_HEADS.get(end, {}).get(base) if num_heads is None else num_heads
    size = _change_size(SIZES[base], options.pop("depth", None), options.pop("width", None), heads)
    if options:
        raise UserError(f"{name} has no option {', '.join(options)}; remove it")
    height, width = image_size or (32, 32)
    patch = max(1, height // GRID_SIDE) if patch_size is None else patch_size
    if patch < 1:
        raise UserError(f"patch_size must be at least 1, but it is {patch}")
    model = VisionTransformer(size, num_classes, (height, width), patch, **of_the_vit)
    return install_parts(model, chosen)


def _change_size(size: Size, depth: Any, width: Any, heads: Any) -> Size:
    """Return a size with the given numbers changed. A new width also sets that of the MLP."""
    given = {"depth": depth, "width": width, "num_heads": heads}
    if width is not None:
        given["mlp_width"] = 2 * width
    for name, number in given.items():
        if number is not None and not (isinstance(number, int) and number > 0):
            raise UserError(f"{name} is {number!r}, but it must be a positive whole number")
    return replace(size, **{name: number for name, number in given.items() if number is not None})
