"""Does LocAt improve a ViT that learns without labels, by DINO?

The study trains ViT-S and LocAtViT-S by DINO and classifies images by nearest neighbours and by a
linear layer on frozen features, as in table 3 of the LocAt paper. k-NN is also compared with the
same network at initialisation, on the same images.
Command: nearsight study run locat-dino --scale laptop --out studies-out/locat-dino
Hardware: laptop: 2 cores, no GPU. paper: 8 GPUs per cell, ImageNet
Time: laptop: 6 cells, about 1.2 core-hours. paper: 6 cells, about 110 GPU-hours at 100 TFLOP/s
Expected: table 3 (one seed): +2.1 points (linear), +1.9 to +2.3 (nearest neighbours)
Laptop: `nano` on a quarter of CIFAR-100, 6 epochs, batch 64, teacher momentum from 0.99, 2 local
  crops of 16 pixels instead of 8 of 96, and a head with 1,024 outputs, hidden width 256 and
  bottleneck 64. It shows whether DINO learns anything at all. It cannot show features worth
  comparing with the paper's, or the effect of LocAt after 50 epochs
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Protocol, override, preset
from nearsight.study.design import (
    BRIEF_MEASURE,
    PLAIN,
    PrimaryContrast,
    Scale,
    Study,
    cross_factors,
)

REDUCED = (
    "data.fraction=0.25", "epochs=6", "warmup_epochs=1", "batch_size=64", "optimizer.lr=5e-4",
    "dino.num_local=2", "dino.local_size=16", "dino.outputs=1024", "dino.hidden=256",
    "dino.bottleneck=64", "dino.teacher_momentum=0.99", "dino.knn_images=5000", "measure_every=3",
)  # fmt: skip
FROZEN = {
    "tasks": "knn,linear", "method": "dino", "data": "imagenet", "controls": False,
    "place": "final",  # as DINO trains them: after PRR where there is PRR
}  # fmt: skip
BRIEF = {"tasks": "knn", "data": "cifar100", "num_train": 5000, "num_val": 5000, "controls": True}


def study(scale: Scale) -> Study:
    brief = scale == "laptop"

    def protocol(locat: bool) -> Protocol:
        if brief:
            name = "nano_locat" if locat else "nano_vit"
            return override(preset("dino", "cifar100", name), REDUCED)
        chosen = preset("dino", "imagenet", "locatvit_small")
        return replace(chosen, model=replace(chosen.model, locat=None if locat else PLAIN))

    return Study(
        cross_factors({"locat": (False, True)}, protocol),
        stages=("train", "measure", "evaluate"),
        settings={**BRIEF_MEASURE, "evaluate": BRIEF} if brief else {"evaluate": FROZEN},
        num_seeds=3,
        primary=PrimaryContrast("test_knn_accuracy", {"locat": True}, {"locat": False}),
    )
