"""``create_model``: our names, their short forms, and every name of timm, torchvision and the hub.

``vit_tiny_patch16_224`` or ``timm/vit_tiny_patch16_224``, ``torchvision/vit_b_16``,
``hf/facebook/dinov2-small`` or ``hf/FOLDER`` (needs the extra ``hf``). Models with LocAt:
``compact_locat`` and its kin, and the published names of names.py, which timm knows too.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import nn

from nearsight.models.names import ARCHITECTURES
from nearsight.models.torchvision_ops import declare_missing_ops
from nearsight.models.vit import SIZES, Pool, VisionTransformer
from nearsight.protocol.schema import (
    LocatSettings,
    ModelSettings,
    gaussian_settings,
    locat_settings,
)

TRAINED_SIZE = 224  # pixels of the published models with LocAt
GRID_SIDE = 8  # the paper's: 32 pixels in patches of 4, 64 in patches of 8
OURS = "nearsight"
PARTS = {  # the end of one of our names, and what it has of LocAt
    "vit": None,
    "locat": LocatSettings(),
    "gaug": LocatSettings(refine=False),
    "prr": LocatSettings(gaussian=None),
}
PREFIXES = ("timm", "torchvision", "hf")


def model_names() -> list[str]:
    """Our own names; timm's come on top, and with them those of names.py."""
    return [f"{size.removesuffix('_vit')}_{part}" for part in PARTS for size in SIZES]


def full_name(name: str) -> str:
    """``compact`` -> ``compact_vit``; anything else unchanged."""
    return f"{name}_vit" if f"{name}_vit" in SIZES else name


def split_name(name: str) -> tuple[str, str]:
    """Where a model comes from, and its name there.

    >>> split_name("compact"), split_name("vit_tiny_patch16_224"), split_name("hf/openai/clip")
    (('nearsight', 'compact_vit'), ('timm', 'vit_tiny_patch16_224'), ('hf', 'openai/clip'))
    """
    if full_name(name) in model_names():
        return OURS, full_name(name)
    prefix, _, rest = name.partition("/")
    return (prefix, rest) if prefix in PREFIXES and rest else ("timm", name)


def create_model(
    name: str,
    num_classes: int = 1000,
    image_size: int | tuple[int, int] | None = None,
    patch_size: int | None = None,
    num_registers: int = 0,
    locat: LocatSettings | dict[str, Any] | None = None,
    pool: Pool | None = None,
    positions: bool = True,
    distilled: bool = False,
    **options: Any,
) -> nn.Module:
    """A freshly initialised model in training mode.

    Ours: ``image_size`` defaults to 32 and ``patch_size`` to an eighth of the image's height; the
    end of the name says which parts of LocAt it has (``_vit`` none, ``_locat``, ``_gaug``,
    ``_prr``), unless ``gaussian=`` or ``refine=`` or ``locat`` say it; ``distilled`` gives it a
    distillation token.
    Others: ``image_size`` defaults to the model's own; ``patch_size``, registers, pooling and
    absent positions only if given; ``locat`` adds it to a stock model, at the start for training
    from scratch; further options go to the library's own function.

    >>> model = create_model("mu", num_classes=7)
    >>> str(model.grid), model.num_prefix
    ('8x8', 1)
    """
    if num_classes < 1:
        raise ValueError(f"expected at least one class, got {num_classes}")
    if isinstance(locat, dict):
        locat = locat_settings(locat)
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    source, own_name = split_name(name)
    check_name(name)
    if source == OURS:
        base, _, part = own_name.rpartition("_")
        parts = _chosen_parts(locat or PARTS[part], options)
        if options:
            raise ValueError(f"{name} takes no option {', '.join(options)}")
        size = size or (32, 32)
        ours = VisionTransformer(
            SIZES[f"{base}_vit"],
            num_classes,
            size,
            patch_size or max(1, size[0] // GRID_SIDE),
            num_registers,
            pool or "token",
            positions,
            distilled,
        )
        return _with_locat(ours, parts)
    if distilled:
        raise ValueError(
            f"expected one of our models for distilled=True, got {name!r}; timm's models with a "
            "distillation token have names of their own, such as deit_tiny_distilled_patch16_224"
        )
    if pool is not None:
        options["global_pool"] = pool
    if not positions:
        options["pos_embed"] = "none"
    given = {"patch_size": patch_size, "reg_tokens": num_registers or None}
    options |= {key: value for key, value in given.items() if value is not None}
    if source == "hf":
        from nearsight.models.huggingface import fresh_model

        if size is not None:
            options["image_size"] = size
        return fresh_model(own_name, options)
    try:
        if source == "torchvision":
            return _torchvision_model(own_name, num_classes, size, options)
        return _timm_model(own_name, num_classes, size, locat, options)
    except TypeError as error:
        raise ValueError(f"{source}'s {own_name} does not take these options: {error}") from error


def check_name(name: str) -> None:
    """ValueError with the nearest names unless the library has this one; ``hf/`` is asked later."""
    source, own_name = split_name(name)
    if source == "timm":
        declare_missing_ops()
        import timm

        if not timm.is_model(own_name):
            expected = f"one of {', '.join(SIZES)} or a name of timm"
            raise _unknown(own_name, expected, [*model_names(), *timm.list_models()])
    elif source == "torchvision":
        declare_missing_ops()
        from torchvision.models import list_models

        if own_name not in list_models():
            raise _unknown(own_name, "a name of torchvision", list_models())


def _unknown(name: str, expected: str, known: Sequence[str]) -> ValueError:
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return ValueError(f"expected {expected}, got {name!r}{hint}")


def _chosen_parts(locat: LocatSettings | None, options: dict[str, Any]) -> LocatSettings | None:
    """The parts of LocAt after ``gaussian=`` and ``refine=``, taken out of the options."""
    gaussian = options.pop("gaussian", locat.gaussian if locat else None)
    refine = bool(options.pop("refine", locat.refine if locat else False))
    settings = gaussian_settings(gaussian)
    return LocatSettings(gaussian=settings, refine=refine) if settings or refine else None


def _with_locat(model: nn.Module, locat: LocatSettings | None) -> nn.Module:
    """The model with the parts that are on, at the start for training from scratch."""
    if locat is None or not (locat.gaussian or locat.refine):
        return model
    from nearsight.models.locat import add_locat

    return add_locat(model, locat.gaussian, locat.refine, published_start=True)


def _timm_model(
    name: str,
    num_classes: int,
    size: tuple[int, int] | None,
    locat: LocatSettings | None,
    options: dict[str, Any],
) -> nn.Module:
    import timm

    if size is not None:
        options["img_size"] = size
    if locat is not None and name in ARCHITECTURES:
        gaussian = asdict(locat.gaussian) if locat.gaussian else False
        options |= {"gaussian": gaussian, "refine": locat.refine}
        locat = None
    return _with_locat(timm.create_model(name, num_classes=num_classes, **options), locat)


def _torchvision_model(
    name: str, num_classes: int, size: tuple[int, int] | None, options: dict[str, Any]
) -> nn.Module:
    from torchvision.models import get_model

    if size is not None:
        if size[0] != size[1]:
            raise TypeError(f"image_size is one number there, not {size[0]}x{size[1]}")
        options["image_size"] = size[0]
    return get_model(name, **{"weights": None, "num_classes": num_classes} | options)


def model_for(
    settings: ModelSettings, num_classes: int, data_size: tuple[int, int]
) -> tuple[nn.Module, tuple[int, int]]:
    """The model of a protocol and the image size it takes.

    Ours are built for the data's size unless told otherwise; timm's keep their own.
    """
    source, _ = split_name(settings.name)
    if source not in (OURS, "timm"):
        raise ValueError(
            f"expected one of {', '.join(SIZES)} or a name of timm for training, "
            f"got {settings.name!r}, which can only be measured"
        )
    ours = source == OURS
    size = (settings.image_size,) * 2 if settings.image_size else data_size if ours else None
    options = {}
    if settings.weights and settings.image_size and settings.name in ARCHITECTURES:
        options["trained_size"] = TRAINED_SIZE  # the weights' grid, to which GAug's widths refer
    model = create_model(
        settings.name,
        num_classes,
        size,
        settings.patch_size,
        settings.num_registers,
        settings.locat,
        settings.pool,
        settings.positions,
        settings.distilled,
        **options,
    )
    if size is None:
        facts: Any = model.pretrained_cfg
        size = tuple(facts["input_size"][1:])
    return model, size
