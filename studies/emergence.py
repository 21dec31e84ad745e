"""When does locality appear, and does it stay?

The study trains the compact ViT on CIFAR-100 by Baseline with and without CutMix, and measures its
attention every 5 epochs from the start on. There is no early stopping, so that all runs are equally
long.
Command: nearsight study run emergence --workers 2 --out studies-out/emergence
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell; a core trains on 21 to 25
  images/s, and a cell sees 8 million images
Time: laptop: 6 cells, about 0.5 core-hours. paper: 6 cells, about 0.1 GPU-hours at 100 TFLOP/s
Expected: not in the papers, which leave the question open
Laptop: 2 layers, 4x4 patches, 24 epochs. It cannot show what happens on 8x8 patches after
  hundreds of epochs
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.study.design import (
    Condition,
    PrimaryContrast,
    Scale,
    Study,
    cutmix_off_and_on,
    shrink,
)

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study(scale: Scale) -> Study:
    conditions = []
    for cutmix, protocol in cutmix_off_and_on("cifar100"):
        watched = replace(protocol, epochs=200, patience=None, measure_every=5)
        chosen = shrink(protocol) if scale == "laptop" else watched
        conditions.append(Condition({"cutmix": cutmix}, chosen))
    return Study(tuple(conditions), primary=PRIMARY)
