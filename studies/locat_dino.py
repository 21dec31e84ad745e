"""Does LocAt improve a ViT that learns without labels, by DINO?

ViT-S and LocAtViT-S, trained by DINO, then classified by nearest neighbours and by a linear layer
on frozen features: table 3 of the LocAt paper.
Command: nearsight study run locat-dino --scale laptop --out studies-out/locat-dino
Hardware: laptop: 2 cores, no GPU. paper: 8 GPUs per cell, ImageNet
Time: see `study plan` when it can run
Expected: table 3 (one seed): +2.1 points (linear), +1.9 to +2.3 (nearest neighbours)
Laptop: `nano` on CIFAR-100 with a small head and few crops. It cannot show features that are worth
  comparing with the paper's
Needs: training by DINO
"""

from __future__ import annotations

from nearsight.study.design import Study


def study() -> Study:
    raise NotImplementedError
