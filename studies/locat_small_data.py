"""Does LocAt improve a ViT that is trained on little data?

The study trains ViT and LocAtViT in three sizes on mini-ImageNet and on CIFAR-100 enlarged to 224
pixels, as in table 3 of the LocAt paper.
Command: nearsight study run locat-small-data --scale laptop --out studies-out/locat-small-data
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, mini-ImageNet
Time: laptop: 6 cells, about 0.3 core-hours. paper: 36 cells, about 120 GPU-hours at 100 TFLOP/s
Expected: table 3 (one seed): +3.5, +5.3 and +5.0 points on mini-ImageNet, +6.6, +4.8 and +5.3 on
  CIFAR-100 (Tiny, Small, Base)
Laptop: `nano` for Tiny, on a fifth of CIFAR-100 at 32 pixels, 5 epochs. It cannot show
  mini-ImageNet, other sizes, 224 pixels or 600 epochs
"""

from __future__ import annotations

from nearsight.protocol import Protocol
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
    locat_protocol,
    shorten,
)


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(data: str, size: str, locat: bool) -> Protocol:
        chosen = locat_protocol("locat-small", data, "ViT", size, locat)
        return shorten(chosen, "nano_locat") if brief else chosen

    factors = {
        "data": ("cifar100",) if brief else ("cifar100", "mini-imagenet"),
        "size": ("Tiny",) if brief else ("Tiny", "Small", "Base"),
        "locat": (False, True),
    }
    return Study(
        cross_factors(factors, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast("accuracy", {"locat": True}, {"locat": False}),
    )
