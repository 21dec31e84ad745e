"""Does DINO teach a small ViT anything on CIFAR-100, with LocAt and without?

Two conditions: `nano` plain and with LocAt, trained without labels on a quarter of CIFAR-100 for 6
epochs. What counts is the accuracy of k-NN on the test images, against that of the same network at
initialisation and between the conditions (the direction of LocAt's table 3). Reduced from DINO: 2
local crops of 16 pixels instead of 8 of 96, a head of 1,024 outputs (hidden 256, bottleneck 64)
instead of 65,536 (2,048, 256), batch 64, a teacher's momentum from 0.99, as there are 940 steps.
Command: nearsight study run dino-nano --workers 1 --out studies-out/dino
Hardware: one core, no GPU
Time: about 11 core-minutes a run, 6 runs
Expected: both above initialisation; too short for a difference between the conditions
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import override, preset
from nearsight.study.design import Condition, PrimaryContrast, Study

REDUCED = (
    "data.fraction=0.25", "epochs=6", "warmup_epochs=1", "batch_size=64", "optimizer.lr=5e-4",
    "dino.num_local=2", "dino.local_size=16", "dino.outputs=1024", "dino.hidden=256",
    "dino.bottleneck=64", "dino.teacher_momentum=0.99", "dino.knn_images=10000", "measure_every=3",
)  # fmt: skip
MODELS = {"plain": "nano_vit", "LocAt": "nano_locat"}
PRIMARY = PrimaryContrast("knn_accuracy", {"model": "LocAt"}, {"model": "plain"})


def study() -> Study:
    protocol = override(preset("dino", "cifar100"), REDUCED)
    return Study(
        tuple(
            Condition({"model": name}, replace(protocol, model=replace(protocol.model, name=model)))
            for name, model in MODELS.items()
        ),
        num_seeds=3,
        primary=PRIMARY,
    )
