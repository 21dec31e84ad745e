"""Do a local architecture and a local protocol add up, or does one make the other needless?

The compact ViT, with the parts of LocAt, and as a ConViT, each by Baseline with and without CutMix,
on CIFAR-100.
Command: nearsight study run architectures --workers 2 --out studies-out/architectures
Hardware: a GPU per cell; a core does 20 to 25 images/s of 24 million
Time: not run here at this scale; `study plan` calibrates it
Expected: not in the papers
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on

MODELS = ("compact_vit", "compact_gaug", "compact_prr", "compact_locat", "compact_convit")


PRIMARY = PrimaryContrast(
    "min_mad",
    {"model": "compact_locat", "cutmix": True},
    {"model": "compact_locat", "cutmix": False},
)


def study() -> Study:
    conditions = []
    for model in MODELS:
        for cutmix, protocol in cutmix_off_and_on("cifar100"):
            built = replace(protocol, model=replace(protocol.model, name=model))
            conditions.append(Condition({"model": model, "cutmix": cutmix}, built))
    return Study(tuple(conditions), primary=PRIMARY)
