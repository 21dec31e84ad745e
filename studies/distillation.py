"""Does a convolutional teacher make a plain ViT more local, and does a ConViT still gain from one?

The study trains plain ViTs and a ConViT, alone and with hard distillation from a convolutional
network, as in table 4 and figure 10 of the ConViT paper. At the laptop scale the teacher is a
ResNet-18 that must be trained first: the study reads its run from runs/teacher, in the folder in
which the study is started.
Command: nearsight train deit --data cifar100 --model resnet18 --out runs/teacher; then nearsight
  study run distillation --scale laptop --out studies-out/distillation
Hardware: laptop: 2 cores, no GPU; the teacher sees 224x224 pixels, which is most of the work.
  paper: a GPU per cell, ImageNet, and the published RegNetY-16GF from the hub
Time: laptop: 12 cells, about 8.7 core-hours. paper: 18 cells, about 1,300 GPU-hours at 100
  TFLOP/s
Expected: appendix B (one seed): nonlocality falls with the teacher; 79.8 and 80.9 % for DeiT-S,
  81.8 and 83.0 % for DeiT-B, 82.2 and 82.9 % for ConViT-S+
Laptop: `nano` on a fifth of CIFAR-100, 5 epochs, only for DeiT-S and ConViT-S+. It cannot show the
  effect of a strong teacher, or the slow return to nonlocal attention
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Distillation, Protocol
from nearsight.study.design import (
    BRIEF_MEASURE,
    PrimaryContrast,
    Scale,
    Study,
    convit_protocol,
    cross_factors,
    shorten,
)

MODELS = {"DeiT-S": "deit_small", "DeiT-B": "deit_base", "ConViT-S+": "convit_small_plus"}
TEACHERS = {
    "laptop": Distillation(teacher="resnet18", weights="runs/teacher"),
    "paper": Distillation(teacher="regnety_160", weights="pretrained"),
}


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(model: str, teacher: bool) -> Protocol:
        published = MODELS[model]
        kind = published.partition("_")[0]
        chosen = convit_protocol(kind, "imagenet", published)
        if brief:
            chosen = shorten(chosen, "nano_convit" if kind == "convit" else "nano_vit")
        chosen = replace(chosen, measure_every=1 if brief else 5)
        if not teacher:
            return chosen
        student = replace(chosen.model, distilled=True)
        return replace(chosen, model=student, distillation=TEACHERS[scale])

    models = ("DeiT-S", "ConViT-S+") if brief else tuple(MODELS)
    return Study(
        cross_factors({"model": models, "teacher": (False, True)}, protocol),
        settings=BRIEF_MEASURE if brief else {},
        primary=PrimaryContrast(
            "layer1_mad",
            {"model": "DeiT-S", "teacher": True},
            {"model": "DeiT-S", "teacher": False},
        ),
    )
