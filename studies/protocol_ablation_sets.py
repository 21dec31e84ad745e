"""Is CutMix the part that makes attention local on CIFAR-10 and Tiny-ImageNet too?

The conditions are all 8 combinations of AutoAugment (ColorJitter on Tiny-ImageNet), CutMix and
label smoothing. The protocol paper has this ablation for CIFAR-100 only, and its outlook asks for
the other sets.
Command: nearsight study run protocol-ablation-sets --scale laptop --out studies-out/ablation-sets
Hardware: laptop: 2 cores, no GPU. paper: a GPU per cell
Time: laptop: 48 cells, about 3.8 core-hours. paper: 48 cells, about 4.1 GPU-hours at 100 TFLOP/s
Expected: not in the paper; on CIFAR-100, only CutMix separates min MAD
Laptop: 2 layers, 4x4 patches, 24 epochs on CIFAR-10 (Tiny-ImageNet: 8 epochs). It cannot show
  what happens on 8x8 patches after hundreds of epochs
"""

from __future__ import annotations

from nearsight.study.design import Condition, PrimaryContrast, Scale, Study, eight, shrink

LAPTOP_EPOCHS = {"cifar10": 24, "tiny-imagenet": 8}


def study(scale: Scale) -> Study:
    conditions = tuple(
        Condition(
            {"data": data, **factors},
            shrink(protocol, epochs=epochs) if scale == "laptop" else protocol,
        )
        for data, epochs in LAPTOP_EPOCHS.items()
        for factors, protocol in eight(data)
    )
    return Study(
        conditions, primary=PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})
    )
