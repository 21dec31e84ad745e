"""Provide designs that recipes share: crossed factors, LocAt and ConViT models, small scales.

``shrink`` and ``shorten`` make protocols that a laptop trains in minutes. ``shrink`` trains `nano`
with a width of 64 and patches of 8 pixels (4x4 on CIFAR) for 24 epochs without early stopping, so
that all runs see equally many images. Its learning rate was chosen by validation accuracy after 6
epochs with a seed that no study uses (0.175 with 3e-3, 0.168 with 1e-3). ``shorten`` trains any
model for a few epochs on a part of CIFAR-100, with a learning rate that was not tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from nearsight.protocol import EIGHT, PARTS, Distillation, LocatSettings, Protocol, preset
from nearsight.study.design.recipe_file import Condition, Level

PLAIN = LocatSettings(gaussian=None, refine=False)  # LocAt's own backbone without LocAt
BACKBONES = {  # the backbones in table 1 of LocAt, and our names for them
    "ViT": "locatvit_{}", "Swin": "locatswin_{}", "RegViT": "locatvit_{}",
    "RoPEViT": "locatvit_{}_rope_mixed", "Jumbo": "locatjumbo_{}",
}  # fmt: skip
NUM_REGISTERS = 4  # of RegViT
JUMBO_TEACHERS = {  # those in LocAt's appendix A.1; Small, share and temperature are ours
    size: Distillation(
        teacher=f"deit3_{teacher}_patch16_224.fb_in22k_ft_in1k", weights="pretrained", kind="soft"
    )
    for size, teacher in (("Tiny", "base"), ("Small", "base"), ("Base", "large"))
}
BRIEF_MEASURE = {"measure": {"num_images": 1000}}  # the settings that go with ``shorten``


def cross_factors(
    factors: Mapping[str, Sequence[Level]], protocol: Callable[..., Protocol]
) -> tuple[Condition, ...]:
    """Make a condition for every combination of levels.

    Args:
        factors: The levels of every factor; the last varies fastest.
        protocol: A function that makes a protocol from one level of every factor, given by name.

    >>> factors = {"data": ["cifar10", "cifar100"], "name": ["modern", "baseline"]}
    >>> [condition.label for condition in cross_factors(factors, preset)][:2]
    ['data cifar10, name modern', 'data cifar10, name baseline']
    """
    combinations = [dict(zip(factors, levels)) for levels in product(*factors.values())]
    return tuple(Condition(levels, protocol(**levels)) for levels in combinations)


def eight(data: str) -> Iterator[tuple[dict[str, bool], Protocol]]:
    """Yield the factors and the protocol of each of the eight protocols of the paper.

    These are all combinations of AutoAugment, CutMix and label smoothing.
    """
    names = {parts: name for name, parts in EIGHT.items()}
    for levels in product((False, True), repeat=len(PARTS)):
        factors = dict(zip(PARTS, levels))
        wanted = frozenset(part for part, on in factors.items() if on)
        yield factors, preset(names[wanted], data)


def cutmix_off_and_on(data: str) -> Iterator[tuple[bool, Protocol]]:
    """Yield (False, Baseline) and (True, Baseline with CutMix)."""
    yield False, preset("baseline", data)
    yield True, preset("baseline+cutmix", data)


def locat_protocol(
    name: str, data: str, backbone: str = "ViT", size: str = "Tiny", locat: bool = True
) -> Protocol:
    """Make LocAt's training protocol for one of its five backbones, with or without LocAt.

    Args:
        name: The preset, "locat" or "locat-small".
        data: The data set.
        backbone: A key of BACKBONES.
        size: Tiny, Small or Base.
        locat: Whether the model has GAug and PRR; without them, it is the same architecture.
    """
    found = preset(name, data, BACKBONES[backbone].format(size.lower()))
    registers = NUM_REGISTERS if backbone == "RegViT" else 0
    parts = None if locat else PLAIN
    model = replace(found.model, num_registers=registers, locat=parts)
    teaching = JUMBO_TEACHERS[size] if backbone == "Jumbo" else None
    return replace(found, model=model, distillation=teaching)


def convit_protocol(name: str, data: str, model: str) -> Protocol:
    """Make the DeiT recipe, or one of ConViT's presets, for a model of a published size.

    The models whose names end in "+" use the learning rate and batch size that the paper gives for
    them.
    """
    found = preset(name, data, model)
    if not model.endswith("_plus"):
        return found
    plus = preset("deit_plus", data)
    return replace(found, optimizer=plus.optimizer, batch_size=plus.batch_size)


def shrink(protocol: Protocol, depth: int = 2, epochs: int = 24) -> Protocol:
    """Make a protocol small: `compact` becomes a `nano` of width 64 on 4x4 patches."""
    name = protocol.model.name.replace("compact", "nano")
    patch = 16 if protocol.data.name == "tiny-imagenet" else 8
    model = replace(protocol.model, name=name, depth=depth, width=64, patch_size=patch)
    return replace(
        protocol,
        model=model,
        optimizer=replace(protocol.optimizer, lr=3e-3),
        epochs=epochs,
        warmup_epochs=2,
        patience=None,
        measure_every=2,
        measure_images=256,
    )


def shorten(
    protocol: Protocol,
    model: str = "nano_vit",
    fraction: float = 0.2,
    epochs: int = 5,
    data: str = "cifar100",
    **settings: Any,
) -> Protocol:
    """Make a protocol that one core trains in minutes: Baseline with another protocol's model.

    The augmentation is a crop and a flip, because strong augmentation does not help such a short
    training.

    Args:
        protocol: The protocol whose model settings are used (LocAt, GPSA), apart from sizes.
        model: The small model to train instead of the protocol's own.
        fraction: The share of each class to train on.
        epochs: The number of epochs over these images.
        data: The data set.
        settings: Further settings of the model, such as ``patch_size``.
    """
    start = preset("baseline", data)
    chosen = {"image_size": None, "patch_size": None, "drop_path": 0.0, **settings}
    return replace(
        start,
        data=replace(start.data, name=data, fraction=fraction),
        model=replace(protocol.model, name=model, **chosen),
        optimizer=replace(start.optimizer, lr=1e-3),
        batch_size=32,
        epochs=epochs,
        warmup_epochs=epochs / 5,
        patience=None,
    )


crossed, shrunk, briefly = cross_factors, shrink, shorten  # the old names, for one version
