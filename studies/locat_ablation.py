"""Which part of LocAt improves accuracy and segmentation: GAug, PRR, or both?

The study trains with GAug and PRR alone and together, with GAP instead of PRR, and without
positional embeddings, as in table 5 of the LocAt paper.
Command: nearsight study run locat-ablation --scale laptop --out studies-out/locat-ablation
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell, ImageNet and ADE20K
Time: laptop: 21 cells, about 1.2 core-hours. paper: 42 cells, about 2,200 GPU-hours at 100
  TFLOP/s
Expected: table 5 (one seed): top-1 grows by 0.8 points with GAug, 1.3 with PRR, 1.6 with both
  (Tiny); mIoU on ADE20K by 1.7, 4.3 and 6.2 points
Laptop: `nano` for Tiny, on a fifth of CIFAR-100, 5 epochs. It cannot show segmentation or Base.
  docs/experiment-log.md has the same models after 10 epochs of all images
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import LocatSettings, Protocol
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

MODELS = {  # the rows of table 5, and the settings of the model
    "ViT": {"locat": PLAIN},
    "ViT + GAug": {"locat": LocatSettings(refine=False)},
    "ViT + PRR": {"locat": LocatSettings(gaussian=None)},
    "LocAtViT": {},
    "ViT - PE": {"locat": PLAIN, "positions": False},
    "LocAtViT - PE": {"positions": False},
    "ViT + GAP": {"locat": PLAIN, "pool": "avg"},
}
FROZEN = {
    "tasks": "segmentation", "method": "locat", "data": "ade20k", "controls": False,
    "options": {"scale": "full"},  # heads trained on random crops, as in the paper
}  # fmt: skip


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(model: str, size: str) -> Protocol:
        locat = locat_protocol("locat", "imagenet", "ViT", size)
        chosen = replace(locat, model=replace(locat.model, **MODELS[model]))
        return shorten(chosen, "nano_locat") if brief else chosen

    return Study(
        cross_factors(
            {"model": tuple(MODELS), "size": ("Tiny",) if brief else ("Tiny", "Base")}, protocol
        ),
        stages=("train", "measure") if brief else ("train", "measure", "evaluate"),
        settings=BRIEF_MEASURE if brief else {"evaluate": FROZEN},
        primary=PrimaryContrast("accuracy", {"model": "LocAtViT"}, {"model": "ViT"}),
    )
