"""Does a ConViT need less data than a plain ViT of the same size?

The study trains on class-balanced fractions of the data, with epochs scaled by 1 / fraction, as in
table 2, figure 2a and the right panel of figure 11 of the ConViT paper.
Command: nearsight study run sample-efficiency --scale laptop --out studies-out/sample-efficiency
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet
Time: laptop: 30 cells, about 1.6 core-hours. paper: 30 cells, about 860 GPU-hours at 100 TFLOP/s
Expected: table 2 (ImageNet, ConViT-S over DeiT-S, one seed): relative gains of 37, 24, 12, 5 and
  2 % with 5, 10, 30, 50 and 100 % of the data
Laptop: `nano` on CIFAR-100; every run sees 40,000 images. It cannot show how the gain vanishes in
  long training; docs/experiment-log.md has the same models after 400,000 images
"""

from __future__ import annotations

from nearsight.protocol import FRACTIONS, Protocol, at_fraction
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    convit_protocol,
    cross_factors,
    shorten,
)

MODELS = {"plain": ("deit", "deit_small"), "convit": ("convit", "convit_small")}


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(model: str, fraction: float) -> Protocol:
        name, published = MODELS[model]
        chosen = convit_protocol(name, "imagenet", published)
        if brief:
            small = "nano_convit" if model == "convit" else "nano_vit"
            chosen = shorten(chosen, small, fraction=1.0, epochs=1)
        return at_fraction(chosen, fraction)

    few = FRACTIONS[0]
    return Study(
        cross_factors({"model": tuple(MODELS), "fraction": FRACTIONS}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast(
            "accuracy", {"model": "convit", "fraction": few}, {"model": "plain", "fraction": few}
        ),
    )
