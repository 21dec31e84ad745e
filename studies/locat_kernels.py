"""Is the Gaussian the best kernel of distance for LocAt?

The study compares no kernel, the Gaussian, inverse distance and Laplace, as in table 8 of the LocAt
paper.
Command: nearsight study run locat-kernels --scale laptop --out studies-out/locat-kernels
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet and ADE20K
Time: laptop: 12 cells, about 0.7 core-hours. paper: 24 cells, about 1,300 GPU-hours at 100
  TFLOP/s
Expected: table 8 (one seed): mIoU on ADE20K 17.3 without a kernel, 23.5, 22.2 and 21.7 with the
  three kernels (Tiny); top-1 73.9 to 74.0 with any of them
Laptop: `nano` for Tiny, on a fifth of CIFAR-100, 5 epochs; no segmentation. It cannot tell the
  three kernels apart by accuracy
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import GaussianSettings, LocatSettings, Protocol
from nearsight.study.design import (
    BRIEF_MEASURE,
    PLAIN,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
    locat_protocol,
    shorten,
)

KERNELS = {
    "none": PLAIN,
    "Gaussian": LocatSettings(),
    "inverse distance": LocatSettings(gaussian=GaussianSettings(kernel="inverse")),
    "Laplace": LocatSettings(gaussian=GaussianSettings(kernel="laplace")),
}
FROZEN = {
    "tasks": "segmentation", "method": "locat", "data": "ade20k", "controls": False,
    "options": {"scale": "full"},  # heads trained on random crops, as in the paper
}  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(kernel: str, size: str) -> Protocol:
        locat = locat_protocol("locat", "imagenet", "ViT", size)
        chosen = replace(locat, model=replace(locat.model, locat=KERNELS[kernel]))
        return shorten(chosen, "nano_locat") if brief else chosen

    sizes = ("Tiny",) if brief else ("Tiny", "Base")
    return Study(
        cross_factors({"kernel": tuple(KERNELS), "size": sizes}, protocol),
        stages=("train", "measure") if brief else ("train", "measure", "evaluate"),
        settings=BRIEF_MEASURE if brief else {"evaluate": FROZEN},
        primary=PrimaryContrast("accuracy", {"kernel": "Gaussian"}, {"kernel": "none"}),
    )
