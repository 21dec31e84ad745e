"""Does LocAt improve segmentation on frozen features of five backbones, and does it cost accuracy?

The study trains ViT, Swin, RegViT, RoPEViT and Jumbo with and without LocAt, and evaluates their
frozen features by segmentation and Hummingbird. It gives tables 1 and 4 and figures 2, 5 and 6 of
the LocAt paper. The size Small is ours; the paper has Tiny and Base. Jumbo learns from DeiT-III
teachers besides the labels.
Command: nearsight study run locat-backbones --scale laptop --out studies-out/locat-backbones
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet and ADE20K
Time: laptop: 30 cells, about 12 core-hours. paper: 90 cells, about 5,200 GPU-hours at 100 TFLOP/s
Expected: table 1 (one seed): LocAt changes mIoU on ADE20K by +0.9 to +8.4 points and top-1 by 0.0
  to +1.6 points; Hummingbird by +0.1 to +12.9 points on VOC
Laptop: the Tiny models on images of 32 pixels, a tenth of CIFAR-100, 4 epochs; Hummingbird on
  `shapes`. It shows that every backbone can be trained, measured and evaluated, and how LocAt
  changes where it attends early in training. It cannot show accuracy or features worth comparing
"""

from __future__ import annotations

from nearsight.protocol import Protocol
from nearsight.study.design import (
    BACKBONES,
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
    locat_protocol,
    shorten,
)

FROZEN = {
    "tasks": "segmentation", "method": "locat,hummingbird", "data": "ade20k", "controls": False,
    "options": {"scale": "full"},  # heads trained on random crops, as in the paper
}  # fmt: skip
BRIEF = {
    "tasks": "hummingbird", "data": "shapes", "num_train": 200, "num_val": 100, "controls": False,
}  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(backbone: str, size: str, locat: bool) -> Protocol:
        chosen = locat_protocol("locat", "imagenet", backbone, size, locat)
        if not brief:
            return chosen
        patch = 2 if backbone == "Swin" else 4
        name = chosen.model.name
        return shorten(chosen, name, 0.1, 4, image_size=32, patch_size=patch)

    sizes = ("Tiny",) if brief else ("Tiny", "Small", "Base")
    factors = {"backbone": tuple(BACKBONES), "size": sizes, "locat": (False, True)}
    return Study(
        cross_factors(factors, protocol),
        stages=("train", "measure", "evaluate"),
        settings={**BRIEF_MEASURE, "evaluate": BRIEF} if brief else {"evaluate": FROZEN},
        primary=PrimaryContrast(
            "accuracy",
            {"backbone": "ViT", "size": "Tiny", "locat": True},
            {"backbone": "ViT", "size": "Tiny", "locat": False},
        ),
    )
