"""Does the effect of CutMix on locality depend on depth, width or the size of patches?

The study changes one thing about the compact ViT at a time and trains it on CIFAR-100 by Baseline
with and without CutMix. MAD cannot be compared between grids directly; compare it with the null
lines of each grid.
Command: nearsight study run scale --workers 2 --out studies-out/scale
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 42 cells, about 5.5 core-hours. paper: 42 cells, about 5.3 GPU-hours at 100 TFLOP/s
Expected: not in the papers, which have one size
Laptop: `compact` becomes 2 layers, 64 wide, on 4x4 patches, 24 epochs; the changes are 1 and 3
  layers, 32 and 128 wide, patches of 16 and 4 pixels. It cannot show what happens on 8x8 patches
  after hundreds of epochs
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

LAPTOP: dict[str, dict[str, int]] = {
    "compact": {},
    "depth 1": {"depth": 1},
    "depth 3": {"depth": 3},
    "width 32": {"width": 32},
    "width 128": {"width": 128},
    "patch 16": {"patch_size": 16},
    "patch 4": {"patch_size": 4},
}
SIZES: dict[str, dict[str, int]] = {
    "compact": {},
    "depth 4": {"depth": 4},
    "depth 12": {"depth": 12},
    "width 96": {"width": 96},
    "width 384": {"width": 384},
    "patch 8": {"patch_size": 8},
    "patch 2": {"patch_size": 2},
}


PRIMARY = PrimaryContrast(
    "min_mad", {"size": "compact", "cutmix": True}, {"size": "compact", "cutmix": False}
)


def study(scale: Scale) -> Study:
    conditions = []
    for name, changes in (LAPTOP if scale == "laptop" else SIZES).items():
        for cutmix, protocol in cutmix_off_and_on("cifar100"):
            start = shrink(protocol) if scale == "laptop" else protocol
            sized = replace(start, model=replace(start.model, **changes))
            conditions.append(Condition({"size": name, "cutmix": cutmix}, sized))
    return Study(tuple(conditions), primary=PRIMARY)
