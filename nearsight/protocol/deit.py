"""The DeiT recipe (Touvron et al. 2021), and ConViT (d'Ascoli et al. 2021) with its ablations.

``deit-x`` removes one part of the recipe. ``deit_plus`` has the batch size and learning rate that
the ConViT paper uses for its wider models, whose names end in "+". ``convit`` is the recipe with
GPSA, and ``convit-x`` removes one thing from it (table 3; the comments give the rows).
``convit+psa`` is the control in the appendix. ``convit+layers=3`` and ``convit+strength=0.5`` are
two models of figure 8, which varies the number of GPSA layers and the strength of their locality.

Where we differ: training never stops early, and the best epoch is chosen on validation images that
are held out of the training set, while the authors train on all images. Image folders use the
values for ImageNet. Small images are padded and cropped instead of cropped and enlarged, and the
number of epochs and the batch size are ours: the ConViT paper trains CIFAR-100 for 3,000 epochs on
images enlarged to 224 pixels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from nearsight.core import UserError
from nearsight.protocol.gpsa_settings import GpsaSettings
from nearsight.protocol.schema import (
    CutMix,
    DataSettings,
    Mixup,
    ModelSettings,
    Optimizer,
    Protocol,
    RandAugment,
    RandomErasing,
    ResizedCrop,
)
from nearsight.protocol.validation import first_mistake

Changes = dict[str, Any]  # dotted path to value
Settings = TypeVar("Settings")

_GATES: Changes = {"model.gpsa.train_gates": False}
_CONVOLUTION: Changes = {"model.gpsa.convolution": False}
_ATTENTION: Changes = {"model.gpsa.train_attention": False}
VARIANTS: dict[str, tuple[str, Changes]] = {  # the recipe that each starts from, and its changes
    "deit-randaugment": ("deit", {"randaugment": None}),
    "deit-mixup": ("deit", {"mixup": None}),
    "deit-cutmix": ("deit", {"cutmix": None}),
    "deit-randomerasing": ("deit", {"random_erasing": None}),
    "deit-labelsmoothing": ("deit", {"label_smoothing": 0.0}),
    "deit-droppath": ("deit", {"model.drop_path": 0.0}),
    "deit-repeats": ("deit", {"repeats": 1}),
    "deit_plus": ("deit", {"batch_size": 512, "optimizer.lr": 4e-4}),
    "convit": ("deit", {"model.name": "compact_convit", "model.gpsa": GpsaSettings()}),  # (a)
    "convit-gates": ("convit", _GATES),  # (b)
    "convit-convolution": ("convit", _CONVOLUTION),  # (c)
    "convit-gates-convolution": ("convit", _GATES | _CONVOLUTION),  # (d)
    "convit-gpsa": ("convit", {"model.gpsa.layers": 0}),  # (e), DeiT with as many heads
    "convit-attention": ("convit", _ATTENTION),  # (f)
    "convit-attention-convolution": ("convit", _ATTENTION | _CONVOLUTION),  # (g)
    "convit+psa": ("convit", {"model.gpsa.mixing": "summed"}),  # in the appendix
}
RECIPES = ("deit", *VARIANTS)
FAMILIES = {  # figure 8; the name continues with a number after the "="
    "convit+layers=": "model.gpsa.layers",
    "convit+strength=": "model.gpsa.strength",
}
LAYERS = tuple(range(13))  # numbers of GPSA layers in figure 8; the model has 12 layers

RATE_AT_512 = 5e-4
LARGE_SETS = ("imagenet", "imagenet-100", "mini-imagenet")
_FOLDERS: dict[str, Any] = {"epochs": 300, "warmup_epochs": 5, "batch_size": 1024}
_SMALL: dict[str, Any] = {"epochs": 300, "warmup_epochs": 5, "batch_size": 128}
_SHAPES: dict[str, Any] = {"epochs": 30, "warmup_epochs": 2, "batch_size": 128}


def is_recipe(name: str) -> bool:
    """Return whether ``recipe`` knows the name.

    >>> is_recipe("deit-mixup"), is_recipe("convit+layers=3"), is_recipe("modern")
    (True, True, False)
    """
    return name in RECIPES or name.startswith(tuple(FAMILIES))


def recipe(name: str, data: str) -> Protocol:
    """Return the DeiT or ConViT protocol of that name, with the values for a data set.

    Raises:
        UserError: If the number in the name is missing or out of range.
    """
    for start, path in FAMILIES.items():
        if name.startswith(start):
            return replace(_change(recipe("convit", data), path, _number_in(name)), name=name)
    if name == "deit":
        return _deit(data)
    base, changes = VARIANTS[name]
    protocol = recipe(base, data)
    for path, value in changes.items():
        protocol = _change(protocol, path, value)
    return replace(protocol, name=name)


def has_large_images(data: str) -> bool:
    """Return whether a data set has large images, as ImageNet and image folders have."""
    return data in LARGE_SETS or data.startswith("folder:")


def assumed_of_recipe(name: str, data: str) -> tuple[str, ...]:
    """Return the settings that we chose because the papers do not give them for a data set."""
    if has_large_images(data):
        return ()
    ours = ["epochs", "crop_padding"]
    if name != "deit_plus":
        ours += ["batch_size", "optimizer.lr"]
    return (*ours, "warmup_epochs") if data == "shapes" else tuple(ours)


def _deit(data: str) -> Protocol:
    small = not has_large_images(data)
    schedule = _SHAPES if data == "shapes" else _SMALL if small else _FOLDERS
    return Protocol(
        name="deit",
        data=DataSettings(name=data),
        model=ModelSettings(drop_path=0.1),
        patience=None,
        optimizer=Optimizer(
            lr=RATE_AT_512 * schedule["batch_size"] / 512,
            weight_decay=0.05,
            decayed="matrices",
            warmup_lr=1e-6,
            final_lr=1e-5,
        ),
        crop_padding=4 if small else 0,
        resized_crop=None if small else ResizedCrop(),
        randaugment=RandAugment(num_ops=2, magnitude=9.0, magnitude_std=0.5),
        random_erasing=RandomErasing(probability=0.25),
        cutmix=CutMix(probability=1.0, alpha=1.0),
        mixup=Mixup(probability=1.0, alpha=0.8),
        repeats=3,
        label_smoothing=0.1,
        **schedule,
    )


def _change(settings: Settings, path: str, value: Any) -> Settings:
    """Return the settings with another value at a dotted path."""
    first, _, rest = path.partition(".")
    new = _change(getattr(settings, first), rest, value) if rest else value
    try:
        return replace(settings, **{first: new})  # type: ignore[type-var]
    except ValidationError as error:
        raise UserError(first_mistake(error)[1]) from None


def _number_in(name: str) -> float:
    """Return the number after the "=" of a name."""
    text = name.partition("=")[2]
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{name!r} needs a number after the =, not {text!r}") from None
