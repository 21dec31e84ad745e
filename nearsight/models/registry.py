"""``create_model``: our names, their short forms, and every name of timm."""

from __future__ import annotations

import difflib
from typing import Any

from torch import nn

from nearsight.models.torchvision_ops import declare_missing_ops
from nearsight.models.vit import SIZES, VisionTransformer
from nearsight.protocol.schema import ModelSettings

GRID_SIDE = 8  # the paper's: 32 pixels in patches of 4, 64 in patches of 8


def model_names() -> list[str]:
    """Our own names; timm's come on top."""
    return list(SIZES)


def full_name(name: str) -> str:
    """``compact`` -> ``compact_vit``; anything else unchanged."""
    return f"{name}_vit" if f"{name}_vit" in SIZES else name


def create_model(
    name: str,
    num_classes: int = 1000,
    image_size: int | tuple[int, int] | None = None,
    patch_size: int | None = None,
    num_registers: int = 0,
    **options: Any,
) -> nn.Module:
    """A freshly initialised model in training mode.

    Ours: ``image_size`` defaults to 32 and ``patch_size`` to an eighth of the image's height.
    timm's: ``image_size`` defaults to the model's own; ``patch_size`` and registers only if given;
    further options go to ``timm.create_model``.

    >>> model = create_model("mu", num_classes=7)
    >>> str(model.grid), model.num_prefix
    ('8x8', 1)
    """
    if num_classes < 1:
        raise ValueError(f"expected at least one class, got {num_classes}")
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    if full_name(name) in SIZES:
        if options:
            raise ValueError(f"{name} takes no option {', '.join(options)}")
        size = size or (32, 32)
        patch_size = patch_size or max(1, size[0] // GRID_SIDE)
        return VisionTransformer(
            SIZES[full_name(name)], num_classes, size, patch_size, num_registers
        )
    declare_missing_ops()
    import timm

    if not timm.is_model(name):
        close = difflib.get_close_matches(name, [*SIZES, *timm.list_models()], n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(
            f"expected one of {', '.join(SIZES)} or a name of timm, got {name!r}{hint}"
        )
    given = {"img_size": size, "patch_size": patch_size, "reg_tokens": num_registers or None}
    options |= {key: value for key, value in given.items() if value is not None}
    try:
        return timm.create_model(name, num_classes=num_classes, **options)
    except TypeError as error:
        raise ValueError(f"timm's {name} does not take these options: {error}") from error


def model_for(
    settings: ModelSettings, num_classes: int, data_size: tuple[int, int]
) -> tuple[nn.Module, tuple[int, int]]:
    """The model of a protocol and the image size it takes.

    Ours are built for the data's size unless told otherwise; timm's keep their own.
    """
    ours = full_name(settings.name) in SIZES
    size = (settings.image_size,) * 2 if settings.image_size else data_size if ours else None
    model = create_model(
        settings.name, num_classes, size, settings.patch_size, settings.num_registers
    )
    if size is None:
        facts: Any = model.pretrained_cfg
        size = tuple(facts["input_size"][1:])
    return model, size
