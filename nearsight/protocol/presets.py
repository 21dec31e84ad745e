"""Provide presets by name: the eight protocols of the paper, and the recipes of other modules.

The eight protocols ask which part of the Modern protocol makes early attention local. Baseline is
random crop and flip; Modern adds AutoAugment, CutMix and label smoothing. ``modern-x`` removes one
part, ``baseline+x`` adds one. On Tiny-ImageNet, ColorJitter takes the place of AutoAugment. ASSUMED
lists the settings that the paper does not give and that we chose.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from nearsight.core import UserError, suggestion
from nearsight.protocol.deit import FAMILIES, RECIPES, assumed_of_recipe, is_recipe, recipe
from nearsight.protocol.dino_preset import DINO, assumed_of_dino, dino_recipe
from nearsight.protocol.fraction import at_fraction, whole_name
from nearsight.protocol.locat_presets import LOCAT, assumed_of_locat, locat_recipe
from nearsight.protocol.schema import (
    AutoAugment,
    ColorJitter,
    CutMix,
    DataSettings,
    Optimizer,
    Protocol,
)

ASSUMED = (
    "optimizer.lr",
    "optimizer.weight_decay",
    "crop_padding",
    "cutmix.probability",
    "cutmix.alpha",
    "label_smoothing",
    "colorjitter.brightness",
    "colorjitter.contrast",
    "colorjitter.saturation",
    "colorjitter.hue",
)
ASSUMED_SCHEDULE = ("epochs", "patience", "warmup_epochs", "batch_size")  # on sets not in the paper

PARTS = ("autoaugment", "cutmix", "labelsmoothing")
EIGHT = {
    "baseline": frozenset[str](),
    "modern": frozenset(PARTS),
    **{f"modern-{part}": frozenset(PARTS) - {part} for part in PARTS},
    **{f"baseline+{part}": frozenset({part}) for part in PARTS},
}
PRESETS = (*EIGHT, *RECIPES, *LOCAT, DINO)
SPOKEN = {
    "autoaugment": "AutoAugment", "colorjitter": "ColorJitter", "cutmix": "CutMix",
    "labelsmoothing": "label smoothing", "randaugment": "RandAugment", "mixup": "Mixup",
    "randomerasing": "random erasing", "droppath": "drop path",
    "repeats": "repeated augmentation",
}  # fmt: skip
SIGNS = (("modern-", "without"), ("deit-", "without"), ("baseline+", "with"))

_SCHEDULES: dict[str, dict[str, Any]] = {
    "cifar10": {"epochs": 600, "patience": 20, "warmup_epochs": 5, "batch_size": 128},
    "cifar100": {"epochs": 600, "patience": 20, "warmup_epochs": 5, "batch_size": 128},
    "tiny-imagenet": {"epochs": 400, "patience": 30, "warmup_epochs": 10, "batch_size": 64},
}
_OTHER_SCHEDULE = {"epochs": 30, "patience": 10, "warmup_epochs": 2, "batch_size": 128}
_LEARNING_RATES = {"cifar10": 3e-4, "cifar100": 3e-4, "tiny-imagenet": 1e-4}
_OTHER_LEARNING_RATE = 1e-3


def preset(name: str, data: str = "cifar100", model: str | None = None) -> Protocol:
    """Return the protocol of that name with the values for a data set.

    Args:
        name: A name that ``nearsight protocols`` lists, for example "baseline" or "modern-cutmix".
        data: The data set, which decides epochs, batch size and learning rate.
        model: The model to train instead of the preset's own. The drop path of LocAt's presets
            depends on its size.

    Returns:
        A frozen ``Protocol``; ``dataclasses.replace`` makes a variant.

    Raises:
        UserError: If there is no such preset.

    >>> preset("modern-cutmix").cutmix is None
    True
    >>> preset("modern", "tiny-imagenet").colorjitter.hue
    0.1
    """
    if model is not None and name not in LOCAT:
        protocol = preset(name, data)
        return replace(protocol, model=replace(protocol.model, name=model))
    if name in LOCAT:
        return locat_recipe(name, data, model)
    if name == DINO:
        return dino_recipe(data)
    if is_recipe(name):
        return recipe(name, data)
    jitter = data == "tiny-imagenet"
    parts = EIGHT.get(name.replace("colorjitter", "autoaugment") if jitter else name)
    if parts is None:
        hint = suggestion(name, [*PRESETS, *(f"{x}N" for x in FAMILIES)], most=2)
        raise UserError(f"there is no preset {name!r}{hint} (`nearsight protocols` lists them)")
    protocol = Protocol(
        name=name.replace("autoaugment", "colorjitter") if jitter else name,
        data=DataSettings(name=data),
        optimizer=Optimizer(lr=_LEARNING_RATES.get(data, _OTHER_LEARNING_RATE)),
        **_SCHEDULES.get(data, _OTHER_SCHEDULE),
    )
    if "autoaugment" in parts and jitter:
        protocol = replace(protocol, colorjitter=ColorJitter())
    if "autoaugment" in parts and not jitter:
        protocol = replace(protocol, autoaugment=AutoAugment())
    if "cutmix" in parts:
        protocol = replace(protocol, cutmix=CutMix())
    if "labelsmoothing" in parts:
        protocol = replace(protocol, label_smoothing=0.1)
    return protocol


UNTRAINED = " (untrained)"  # appended to the name of a model at random initialisation


def spoken_name(name: str) -> str:
    """Return a protocol's name as tables, sentences and figures show it.

    ``modern-autoaugment`` removes AutoAugment, which a hurried reader may read the other way round.

    >>> spoken_name("modern-autoaugment"), spoken_name("baseline+labelsmoothing")
    ('modern without AutoAugment', 'baseline with label smoothing')
    >>> spoken_name("modern-cutmix@10%"), spoken_name("deit")
    ('modern without CutMix@10%', 'deit')
    >>> spoken_name("deit-mixup")
    'deit without Mixup'
    """
    whole = whole_name(name)
    for start, word in SIGNS:
        part = whole.removeprefix(start)
        if part != whole and part in SPOKEN:
            return f"{start[:-1]} {word} {SPOKEN[part]}{name[len(whole) :]}"
    return name


def value_at(settings: dict[str, Any], path: str) -> Any:
    """Return the value at a dotted path of ``asdict(protocol)``, or None if the group is off."""
    value: Any = settings
    for key in path.split("."):
        value = None if value is None else value[key]
    return value


def assumed_values(protocol: Protocol) -> dict[str, Any]:
    """Return path and value of every setting that we assumed, is in use and was not overridden."""
    name = whole_name(protocol.name).replace("colorjitter", "autoaugment")
    data = protocol.data
    if is_recipe(name):
        paths = assumed_of_recipe(name, data.name)
    elif name in LOCAT:
        paths = assumed_of_locat(name, data.name)
    elif name == DINO:
        paths = assumed_of_dino(data.name)
    elif name in EIGHT:
        paths = ASSUMED if data.name in _SCHEDULES else (*ASSUMED_SCHEDULE, *ASSUMED)
    else:
        return {}
    whole = whole_name(protocol.name) == protocol.name
    ours = asdict(at_fraction(preset(name, data.name), 1.0 if whole else data.fraction))
    used = asdict(protocol)
    return {
        path: value_at(used, path)
        for path in paths
        if value_at(used, path) and value_at(used, path) == value_at(ours, path)
    }
