"""Do the gates matter, or is it enough to add position and content before the softmax?

The study compares DeiT-B, ConViT-B, and ConViT-B with positional self-attention (PSA) instead of
GPSA, as in figure 9 of the ConViT paper.
Command: nearsight study run convit-psa --scale laptop --out studies-out/convit-psa
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet
Time: laptop: 9 cells, about 0.5 core-hours. paper: 9 cells, about 880 GPU-hours at 100 TFLOP/s
Expected: figure 9: PSA is ahead of the DeiT early and below it at the end
Laptop: `nano` on a fifth of CIFAR-100, 5 epochs. It shows only the early part of training and
  cannot show the end
"""

from __future__ import annotations

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

ATTENTION = {  # the preset, and the published model
    "SA": ("deit", "deit_base"), "GPSA": ("convit", "convit_base"),
    "PSA": ("convit+psa", "convit_base"),
}  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(attention: str) -> Protocol:
        name, model = ATTENTION[attention]
        chosen = convit_protocol(name, "imagenet", model)
        return shorten(chosen, "nano_vit" if name == "deit" else "nano_convit") if brief else chosen

    return Study(
        cross_factors({"attention": tuple(ATTENTION)}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"attention": "PSA"}, {"attention": "SA"}),
    )
