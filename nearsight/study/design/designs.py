"""Designs that several recipes share: the eight conditions, CutMix on and off, a small scale.

At the small scale a CPU trains a run in minutes: `nano` with a width of 64 and patches of 8 pixels
(4x4 on CIFAR), 24 epochs without early stopping, so that all runs see equally many images. The
learning rate was chosen by validation accuracy after 6 epochs with a seed that no study uses
(0.175 with 3e-3, 0.168 with 1e-3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from nearsight.protocol import EIGHT, PARTS, Protocol, preset


def eight(data: str) -> Iterator[tuple[dict[str, bool], Protocol]]:
    """Factors and protocol of all combinations of AutoAugment, CutMix and label smoothing."""
    names = {parts: name for name, parts in EIGHT.items()}
    for levels in product((False, True), repeat=len(PARTS)):
        factors = dict(zip(PARTS, levels))
        wanted = frozenset(part for part, on in factors.items() if on)
        yield factors, preset(names[wanted], data)


def cutmix_off_and_on(data: str) -> Iterator[tuple[bool, Protocol]]:
    """Baseline, and Baseline with CutMix."""
    yield False, preset("baseline", data)
    yield True, preset("baseline+cutmix", data)


def shrunk(protocol: Protocol, depth: int = 2, epochs: int = 24) -> Protocol:
    """Return a protocol at the small scale."""
    model = replace(protocol.model, name="nano_vit", depth=depth, width=64, patch_size=8)
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
