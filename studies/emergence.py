"""When does locality appear, and does it stay?

Baseline and Baseline+CutMix, the compact ViT, CIFAR-100, attention measured every 5 epochs from
the start on, without early stopping, so that all runs are equally long.
Command: nearsight study run emergence --workers 2 --out studies-out/emergence
Hardware: a GPU per cell; a core does 21 to 25 images/s of 8 million
Time: not run here at this scale; `study plan` calibrates it
Expected: not in the papers, which leave it open
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study() -> Study:
    conditions = []
    for cutmix, protocol in cutmix_off_and_on("cifar100"):
        watched = replace(protocol, epochs=200, patience=None, measure_every=5)
        conditions.append(Condition({"cutmix": cutmix}, watched))
    return Study(tuple(conditions), primary=PRIMARY)
