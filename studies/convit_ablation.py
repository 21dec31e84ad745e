"""Which part of a ConViT helps: the gates, the convolutional start, or the attention itself?

The conditions are rows a to g of table 3 of the ConViT paper. The study also gives the right panel
of its figure 12.
Command: nearsight study run convit-ablation --scale laptop --out studies-out/convit-ablation
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, 100 classes of ImageNet
Time: laptop: 21 cells, about 1.2 core-hours. paper: 21 cells, about 120 GPU-hours at 100 TFLOP/s
Expected: table 3 (ConViT-S+ on 100 classes of ImageNet, one seed): a 82.2, b 82.0, c 81.4, d
  81.6, e 79.1, f 78.6, g 73.7 %
Laptop: `nano` on a fifth of CIFAR-100, 5 epochs. It cannot show final accuracy or a kernel larger
  than 2x2, and it cannot tell rows apart that differ by 0.2 points in the paper
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

ROWS = (  # a to g
    "convit", "convit-gates", "convit-convolution", "convit-gates-convolution", "convit-gpsa",
    "convit-attention", "convit-attention-convolution",
)  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(variant: str) -> Protocol:
        chosen = convit_protocol(variant, "imagenet-100", "convit_small_plus")
        return shorten(chosen, "nano_convit") if brief else chosen

    return Study(
        cross_factors({"variant": ROWS}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"variant": "convit"}, {"variant": "convit-gpsa"}),
    )
