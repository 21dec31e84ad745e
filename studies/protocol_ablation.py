"""Which part of the Modern protocol makes early attention local?

The conditions are all 8 combinations of AutoAugment, CutMix and label smoothing on CIFAR-100, as in
table 2 and figures 4 and 5 of the protocol paper.
Command: nearsight study run protocol-ablation --seeds 3 --workers 2 --out studies-out/ablation
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell; a core trains on 21 to 25
  images/s, and a cell sees 24 million images at most
Time: laptop: 24 cells, about 1.9 core-hours. paper: 40 cells, about 2.9 GPU-hours at 100 TFLOP/s
Expected: the paper has, with one seed, min MAD of at most 0.024 in every condition with CutMix and
  at least 0.210 in every condition without; accuracy 63.4 % by Modern, 48.5 % by Baseline
Laptop: as in the study protocol-small, whose results are in results/: 2 layers, 4x4 patches, 24
  epochs. It cannot show what happens on 8x8 patches after hundreds of epochs
"""

from __future__ import annotations

from nearsight.study.design import Condition, PrimaryContrast, Scale, Study, eight, shrink

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study(scale: Scale) -> Study:
    brief = scale == "laptop"
    conditions = tuple(
        Condition(factors, shrink(protocol) if brief else protocol)
        for factors, protocol in eight("cifar100")
    )
    return Study(conditions, num_seeds=3 if brief else 5, primary=PRIMARY)
