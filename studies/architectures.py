"""Do a local architecture and a local protocol add up, or does one make the other needless?

The study trains the compact ViT, the compact ViT with each part of LocAt and with both, and a
compact ConViT on CIFAR-100, each by Baseline with and without CutMix.
Command: nearsight study run architectures --workers 2 --out studies-out/architectures
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell; a core trains on 20 to 25
  images/s, and a cell sees 24 million images
Time: laptop: 30 cells, about 2.4 core-hours. paper: 30 cells, about 2.2 GPU-hours at 100 TFLOP/s
Expected: not in the papers
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

MODELS = ("compact_vit", "compact_gaug", "compact_prr", "compact_locat", "compact_convit")


PRIMARY = PrimaryContrast(
    "min_mad",
    {"model": "compact_locat", "cutmix": True},
    {"model": "compact_locat", "cutmix": False},
)


def study(scale: Scale) -> Study:
    conditions = []
    for model in MODELS:
        for cutmix, protocol in cutmix_off_and_on("cifar100"):
            built = replace(protocol, model=replace(protocol.model, name=model))
            chosen = shrink(built) if scale == "laptop" else built
            conditions.append(Condition({"model": model, "cutmix": cutmix}, chosen))
    return Study(tuple(conditions), primary=PRIMARY)
