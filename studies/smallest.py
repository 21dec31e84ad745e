"""How small a model and how short a training still shows what CutMix does to min MAD?

Baseline with and without CutMix on CIFAR-100 at the scale of protocol-small, with 1, 2 and 4 layers
and 24 epochs, attention every 2 epochs; its cells with 2 layers are those of protocol-small.
Command: nearsight study run smallest --workers 2 --out studies-out/smallest
  --reuse studies-out/small
Hardware: 2 cores, no GPU
Time: 35 minutes with the cells of protocol-small, else an hour
Expected: from one seed of 4 layers after 120 epochs: min MAD 0.396 without CutMix, 0.373 with it
"""

from __future__ import annotations

from nearsight.study.designs import cutmix_off_and_on, shrunk
from nearsight.study.recipe import Condition, Study

DEPTHS = (1, 2, 4)


def study() -> Study:
    conditions = tuple(
        Condition({"depth": depth, "cutmix": cutmix}, shrunk(protocol, depth))
        for depth in DEPTHS
        for cutmix, protocol in cutmix_off_and_on("cifar100")
    )
    return Study(conditions, num_seeds=3)
