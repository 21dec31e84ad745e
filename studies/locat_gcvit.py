"""Negative control: does LocAt help a model whose attention is already local?

The study trains GCViT, whose attention is confined to small windows, with and without LocAt, as in
appendix H of the LocAt paper.
Command: nearsight study run locat-gcvit --scale laptop --out studies-out/locat-gcvit
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet
Time: laptop: 6 cells, about 0.9 core-hours. paper: 12 cells, about 650 GPU-hours at 100 TFLOP/s
Expected: the paper observed no improvement; it prints no number
Laptop: `gcvit_xxtiny` on a tenth of CIFAR-100 enlarged to 64 pixels, 4 epochs. It cannot show that
  LocAt has no effect at the paper's scale, and its intervals are wide
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import LocatSettings, Protocol, preset
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
    shorten,
)


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(size: str, locat: bool) -> Protocol:
        plain = preset("locat", "imagenet", f"gcvit_{size.lower()}")
        parts = LocatSettings() if locat else None
        chosen = replace(plain, model=replace(plain.model, locat=parts))
        return shorten(chosen, "gcvit_xxtiny", 0.1, 4, image_size=64) if brief else chosen

    return Study(
        cross_factors(
            {"size": ("Tiny",) if brief else ("Tiny", "Base"), "locat": (False, True)}, protocol
        ),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"locat": True}, {"locat": False}),
    )
