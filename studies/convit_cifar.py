"""Does a ConViT overfit CIFAR-100 in 3,000 epochs, and does it stay ahead of the DeiT?

The study trains the three sizes with a "+" on CIFAR-100 enlarged to 224 pixels. It gives the left
panel of figure 11 of the ConViT paper.
Command: nearsight study run convit-cifar --scale laptop --out studies-out/convit-cifar
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 18 cells, about 3 core-hours. paper: 18 cells, about 560 GPU-hours at 100 TFLOP/s
Expected: figure 11: 82.1 % for ConViT-Ti+ (10 M parameters); overfitting after 1,000 epochs
Laptop: 4 layers on a twentieth of CIFAR-100 at 32 pixels, 20 epochs, so that few images are seen
  often. It shows how small models overfit. It cannot show accuracy at 224 pixels
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

SIZES = {"Ti+": ("tiny_plus", 4, 64), "S+": ("small_plus", 9, 144), "B+": ("base_plus", 16, 256)}


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(model: str, size: str) -> Protocol:
        end, heads, width = SIZES[size]
        name = model.lower()
        found = convit_protocol(name, "imagenet", f"{name}_{end}")
        if brief:
            small = "nano_convit" if name == "convit" else "nano_vit"
            return shorten(found, small, 0.05, 20, num_heads=heads, width=width)
        data = replace(found.data, name="cifar100", image_size=224)
        return replace(found, data=data, epochs=3000)

    return Study(
        cross_factors({"model": ("DeiT", "ConViT"), "size": tuple(SIZES)}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"model": "ConViT"}, {"model": "DeiT"}),
    )
