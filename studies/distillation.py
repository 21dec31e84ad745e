"""Does a convolutional teacher make a plain ViT more local, and does a ConViT still gain from one?

The compact ConViT and the plain ViT of as many heads, each by the DeiT recipe on CIFAR-100, alone
and with hard distillation from a ResNet-18 that was trained here before: the study takes its run
from runs/teacher, in the folder that it is started in, and nothing from the network.
Command: nearsight train deit --data cifar100 --model resnet18 --out runs/teacher; then
  nearsight study run distillation --workers 2 --out studies-out/distillation
Hardware: a GPU per cell; the teacher sees 224x224 pixels, which is most of the work
Time: not run here at this scale; `study plan` calibrates it
Expected: the ConViT paper's appendix B (ImageNet, a RegNetY-16GF as teacher, one seed): nonlocality
  falls with the teacher (figure 10); 79.8 and 80.9 % for DeiT-S, 82.2 and 82.9 % for ConViT-S+
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Distillation, Protocol, preset
from nearsight.study.design import Condition, PrimaryContrast, Study

MODELS = {"plain": "convit-gpsa", "convit": "convit"}
TEACHER = Distillation(teacher="resnet18", weights="runs/teacher")


def taught(protocol: Protocol) -> Protocol:
    model = replace(protocol.model, distilled=True)
    return replace(protocol, model=model, distillation=TEACHER)


PRIMARY = PrimaryContrast(
    "layer1_mad", {"model": "plain", "teacher": True}, {"model": "plain", "teacher": False}
)


def study() -> Study:
    return Study(
        tuple(
            Condition({"model": model, "teacher": on}, taught(protocol) if on else protocol)
            for model, protocol in ((x, preset(name, "cifar100")) for x, name in MODELS.items())
            for on in (False, True)
        ),
        primary=PRIMARY,
    )
