"""Which part of the Modern protocol makes early attention local, in a ViT that a CPU can train?

The conditions are all 8 combinations of AutoAugment, CutMix and label smoothing on CIFAR-100. The
ViT has 2 layers of width 64 with 4 heads on a 4x4 grid of patches. It trains for 24 epochs without
early stopping (matched steps), and its attention is measured every 2 epochs.
Command: nearsight study run protocol-small --seeds 3 --workers 2 --out studies-out/small
Hardware: 2 cores, no GPU
Time: 1 to 1.5 hours
Expected: from results/protocol-small: accuracy 24 to 31 %, min MAD 0.39 to 0.43; CutMix changes min
  MAD by -0.003 (-0.010 to +0.004), AutoAugment by +0.023 (+0.001 to +0.046)
"""

from __future__ import annotations

from nearsight.study.design import Condition, PrimaryContrast, Study, eight, shrink

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study() -> Study:
    conditions = tuple(
        Condition(factors, shrink(protocol)) for factors, protocol in eight("cifar100")
    )
    return Study(conditions, num_seeds=3, primary=PRIMARY)
