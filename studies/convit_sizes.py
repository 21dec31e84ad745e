"""How does the gain of a ConViT over a DeiT depend on the size of the model?

The study trains ConViT and DeiT in the six sizes of table 1 of the ConViT paper and measures their
attention during training. It also gives figures 2b (parameter efficiency), 5, 6, 7 and 13 to 17,
and the middle panel of figure 11.
Command: nearsight study run convit-sizes --scale laptop --out studies-out/convit-sizes
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet
Time: laptop: 36 cells, about 4.7 core-hours. paper: 36 cells, about 2,200 GPU-hours at 100
  TFLOP/s
Expected: table 1 (one seed): +0.9, +0.8, +1.5, +3.2, +0.6 and +5.0 points (Ti, Ti+, S, S+, B, B+)
Laptop: 4 layers with 4, 9 or 16 heads of width 12 (16 in models with a "+"), on a fifth of
  CIFAR-100, 5 epochs. It shows the first minutes of training. It cannot show final accuracy, or
  how the gain grows with size if training is long enough for large models
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Protocol
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    convit_protocol,
    cross_factors,
    shorten,
)

SIZES = {  # the end of the published name, and heads and width at the laptop scale
    "Ti": ("tiny", 4, 48), "Ti+": ("tiny_plus", 4, 64), "S": ("small", 9, 108),
    "S+": ("small_plus", 9, 144), "B": ("base", 16, 192), "B+": ("base_plus", 16, 256),
}  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(model: str, size: str) -> Protocol:
        end, heads, width = SIZES[size]
        name = model.lower()
        chosen = convit_protocol(name, "imagenet", f"{name}_{end}")
        if brief:
            small = "nano_convit" if name == "convit" else "nano_vit"
            chosen = shorten(chosen, small, num_heads=heads, width=width)
        return replace(chosen, measure_every=1 if brief else 5)

    return Study(
        cross_factors({"model": ("DeiT", "ConViT"), "size": tuple(SIZES)}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"model": "ConViT"}, {"model": "DeiT"}),
    )
