"""What in CutMix makes attention local: the rectangle, or the mixing of two images and labels?

The study trains the compact ViT on CIFAR-100 by Baseline with one change at a time: CutMix; CutMix
with other ratios (with alpha 0.2 most boxes are very small or very large, with 4 most cover about
half of the image); CutMix without mixed labels; Mixup (mixed labels, no rectangle); and CutOut of
three sizes and random erasing (a rectangle, nothing mixed).
Command: nearsight study run mixing --workers 2 --out studies-out/mixing
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell; a core trains on 21 to 25
  images/s, and a cell sees 24 million images
Time: laptop: 30 cells, about 2.4 core-hours. paper: 30 cells, about 2.2 GPU-hours at 100 TFLOP/s
Expected: not in the papers
Laptop: 2 layers, 4x4 patches, 24 epochs. It cannot show what happens on 8x8 patches after
  hundreds of epochs
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import CutMix, CutOut, Mixup, RandomErasing, preset
from nearsight.study.design import Condition, PrimaryContrast, Scale, Study, shrink

CHANGES: dict[str, dict[str, object]] = {
    "none": {},
    "cutmix": {"cutmix": CutMix()},
    "cutmix alpha 0.2": {"cutmix": CutMix(alpha=0.2)},
    "cutmix alpha 4": {"cutmix": CutMix(alpha=4.0)},
    "cutmix, own label": {"cutmix": CutMix(mix_labels=False)},
    "mixup": {"mixup": Mixup()},
    "cutout 8": {"cutout": CutOut(size=8, probability=0.5)},
    "cutout 16": {"cutout": CutOut(size=16, probability=0.5)},
    "cutout 24": {"cutout": CutOut(size=24, probability=0.5)},
    "erasing": {"random_erasing": RandomErasing(probability=0.5)},
}


PRIMARY = PrimaryContrast("min_mad", {"mixing": "cutmix"}, {"mixing": "none"})


def study(scale: Scale) -> Study:
    whole = preset("baseline", "cifar100")
    baseline = shrink(whole) if scale == "laptop" else whole
    return Study(
        tuple(
            Condition({"mixing": name}, replace(baseline, **changes))
            for name, changes in CHANGES.items()
        ),
        primary=PRIMARY,
    )
