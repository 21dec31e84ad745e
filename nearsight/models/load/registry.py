"""Create models by name: ours, and those of timm, torchvision and Hugging Face.

Examples of names are ``vit_tiny_patch16_224`` or ``timm/vit_tiny_patch16_224``,
``torchvision/vit_b_16``, and ``hf/facebook/dinov2-small`` or ``hf/FOLDER`` (these need the extra
``hf``). Ours are the models of own.py (``compact_locat``, ``nano_convit``) and the published ones
of names.py (``locatvit_tiny``, ``convit_tiny``). If timm has a model of the same name,
``convit_tiny`` is ours and ``timm/convit_tiny`` is timm's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from nearsight.core import UserError, suggestion
from nearsight.models.compat import declare_missing_ops
from nearsight.models.parts import PARTS, choose_parts, install_parts
from nearsight.models.vit import SIZES, Pool
from nearsight.models.zoo import (
    ARCHITECTURES,
    build_named,
    full_name,
    model_names,
    own_model,
    part_of,
    register_with_timm,
)
from nearsight.protocol import ModelSettings

OURS = "nearsight"
PREFIXES = ("timm", "torchvision", "hf")


def split_name(name: str) -> tuple[str, str]:
    """Return the library that a model comes from, and its name there.

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
    *,
    pool: Pool | None = None,
    positions: bool = True,
    distilled: bool = False,
    num_heads: int | Sequence[int] | None = None,
    drop_path: float = 0.0,
    any_size: bool = False,
    **options: Any,
) -> nn.Module:
    """Create a model with random weights, in training mode.

    Every model has an option for each part (``locat``, ``gpsa``): true, false, a dictionary or
    settings. It adds the part, initialised for training from scratch.

    Args:
        name: Name of the model: ours, or of timm, torchvision or Hugging Face.
        num_classes: Number of classes of the head.
        image_size: Height and width. The default is 32 for our models; other models have defaults
            of their own.
        patch_size: Side of a patch in pixels. The default is an eighth of the height for our
            models; other models have defaults of their own.
        num_registers: Number of register tokens.
        pool: What the head reads: the class token or the mean of the patches.
        positions: Whether there are positional embeddings.
        distilled: Add a distillation token (our models only).
        num_heads: Number of heads, instead of the number that the name stands for.
        drop_path: Largest rate of stochastic depth.
        any_size: Whether the model takes images of any size (our models only).
        **options: For our models, parts, ``depth`` and ``width``; for others, options of the
            library.

    Raises:
        UserError: If there is no such model, or it does not take these options.

    >>> model = create_model("mu", num_classes=7)
    >>> str(model.grid), model.num_prefix
    ('8x8', 1)
    """
    if num_classes < 1:
        raise UserError(f"num_classes is {num_classes}, but it must be at least 1")
    parts = {name: options.pop(name) for name in PARTS if name in options}
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    source, own_name = split_name(name)
    check_name(name)
    if source == OURS:
        return own_model(
            own_name, num_classes, size, patch_size, num_heads, parts, options,
            num_registers=num_registers, pool=pool or "token", positions=positions,
            distilled=distilled, drop_path=drop_path, any_size=any_size,
        )  # fmt: skip
    if not positions:
        options["pos_embed"] = "none"
    given = {
        "patch_size": patch_size,
        "reg_tokens": num_registers or None,
        "global_pool": pool,
        "num_heads": num_heads,
        "drop_path_rate": drop_path or None,
        "distilled": distilled or None,
    }
    options |= {key: value for key, value in given.items() if value is not None}
    if distilled and name not in ARCHITECTURES:
        raise UserError(
            f"distilled=True is for nearsight's own models, and {name!r} is not one; choose a "
            "model of timm with a distillation token, such as deit_tiny_distilled_patch16_224"
        )
    if source == "hf":
        from nearsight.models.load.huggingface import fresh_model

        if size is not None:
            options["image_size"] = size
        return fresh_model(own_name, options)
    try:
        if source == "torchvision":
            return _torchvision_model(own_name, num_classes, size, options)
        if size is not None:
            options["img_size"] = size
        if name in ARCHITECTURES:
            return _published_model(name, num_classes, parts, options)
        stock = _timm_model(own_name, num_classes, options)
    except UserError:
        raise
    except (TypeError, ValueError) as error:  # the library refuses the options
        raise UserError(f"{source}'s {own_name} does not take these options: {error}") from error
    return install_parts(stock, choose_parts(parts, {}, {}))


def check_name(name: str) -> None:
    """Raise a UserError with similar names unless there is a model of this name.

    Names of Hugging Face are checked only when the model is loaded, because that needs the network.
    """
    source, own_name = split_name(name)
    if source == "timm":
        declare_missing_ops()
        import timm

        if name not in ARCHITECTURES and not timm.is_model(own_name):
            folder = Path(own_name)
            inside = "/" in own_name and Path(own_name.partition("/")[0]).is_dir()
            if (own_name.startswith(("/", ".", "~")) or inside) and not folder.exists():
                raise UserError(f"there is no folder {own_name}; check the path")
            if "/" in own_name or (folder / "config.json").is_file():
                raise UserError(
                    f"there is no model {name!r}; a model of Hugging Face, or a folder that "
                    f"save_pretrained wrote, is named hf/{own_name}"
                )
            expected = f"one of {', '.join(SIZES)} or a name of timm"
            known = [*model_names(), *ARCHITECTURES, *timm.list_models()]
            raise _unknown(own_name, expected, known)
        try:
            timm.models.get_pretrained_cfg(own_name)
        except RuntimeError as error:  # timm has the model, but no weights of this name
            base = own_name.partition(".")[0]
            tags = timm.list_pretrained(f"{base}.*")
            raise _unknown(
                own_name, f"the name of weights that timm has for {base}", tags
            ) from error
    elif source == "torchvision":
        declare_missing_ops()
        from torchvision.models import list_models

        if own_name not in list_models():
            raise _unknown(own_name, "a name of torchvision", list_models())


def _unknown(name: str, expected: str, known: Sequence[str]) -> UserError:
    """Return the error that a name is not what is expected, with similar names."""
    return UserError(f"{name!r} is not {expected}{suggestion(name, known)}")


def _timm_model(name: str, num_classes: int, options: dict[str, Any]) -> nn.Module:
    """Build a model of timm with random weights."""
    import timm

    return timm.create_model(name, num_classes=num_classes, **options)


def _published_model(
    name: str,
    num_classes: int,
    parts: dict[str, Any],
    options: dict[str, Any],
) -> nn.Module:
    """Build a model of names.py.

    If its class has an option for a part, the class adds the part. Other parts are added
    afterwards.
    """
    register_with_timm()
    own = part_of(name)
    if own is not None and (choice := parts.pop(own, None)) is not None:
        options |= PARTS[own].class_options(choice)
    pretrained = options.pop("pretrained", False)
    model = build_named(name, pretrained, {"num_classes": num_classes} | options)
    return install_parts(model, choose_parts(parts, {}, {}))


def _torchvision_model(
    name: str, num_classes: int, size: tuple[int, int] | None, options: dict[str, Any]
) -> nn.Module:
    """Build a model of torchvision with random weights."""
    from torchvision.models import get_model

    if size is not None:
        if size[0] != size[1]:
            raise TypeError(f"its image_size is one number, not {size[0]}x{size[1]}")
        options["image_size"] = size[0]
    return get_model(name, **{"weights": None, "num_classes": num_classes} | options)


ANY_SIZE: tuple[dict[str, Any], ...] = (  # how timm's classes are made to take images of any size
    {"dynamic_img_size": True},  # ViT, DeiT, BEiT, EVA
    {"strict_img_size": False},  # Swin
    {},  # other classes have no such option
)


def model_for(
    settings: ModelSettings, num_classes: int, data_size: tuple[int, int], any_size: bool = False
) -> tuple[nn.Module, tuple[int, int]]:
    """Build the model of a protocol, and return it with its image size.

    Args:
        settings: The model settings of the protocol.
        num_classes: Number of classes of the data.
        data_size: Height and width of the images of the data. Our models are built for it unless
            the settings name another size; timm's keep their own.
        any_size: Whether the model should also take images of other sizes, if its class can.

    Raises:
        UserError: If the model cannot be trained here, or does not take these settings.
    """
    source, _ = split_name(settings.name)
    if source not in (OURS, "timm"):
        raise UserError(
            f"{settings.name!r} can be measured but not trained; to train, choose "
            f"{', '.join(SIZES)} or a model of timm"
        )
    ours = source == OURS
    size = (settings.image_size,) * 2 if settings.image_size else data_size if ours else None
    options: dict[str, Any] = {}
    if settings.depth is not None:
        options["depth"] = settings.depth
    if settings.width is not None:
        options["width" if ours else "embed_dim"] = settings.width
    own = part_of(settings.name)
    if settings.weights and settings.image_size and own is not None:
        options |= PARTS[own].resized
    options |= {name: getattr(settings, name, None) for name in PARTS}

    def build(**further: Any) -> nn.Module:
        return create_model(
            settings.name,
            num_classes,
            size,
            settings.patch_size,
            settings.num_registers,
            pool=settings.pool,
            positions=settings.positions,
            distilled=settings.distilled,
            num_heads=settings.num_heads,
            drop_path=settings.drop_path,
            **options,
            **further,
        )

    if not any_size:
        model = build()
    elif ours:
        model = build(any_size=True)
    else:
        model = _first_that_builds(build)
    if size is None:
        facts: Any = model.pretrained_cfg
        size = tuple(facts["input_size"][1:])
    return model, size


def _first_that_builds(build: Callable[..., nn.Module]) -> nn.Module:
    """Build a model of timm with the first options in ANY_SIZE that its class takes."""
    for further in ANY_SIZE[:-1]:
        try:
            return build(**further)
        except UserError:
            continue
    return build()
