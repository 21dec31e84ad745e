"""Which part of the Modern protocol makes early attention local?

All 8 combinations of AutoAugment, CutMix and label smoothing, the compact ViT, CIFAR-100.
Command: nearsight study run protocol-ablation --seeds 3 --workers 2 --out studies-out/ablation
Hardware: a GPU per cell; a core does 21 to 25 images/s of the 24 million that a cell sees at most
Time: not run here at this scale; `study plan` calibrates it
Expected: the paper, one seed: min MAD at most 0.024 in every condition with CutMix, at least 0.210
  in every one without; accuracy 63.4 % by Modern, 48.5 % by Baseline
"""

from __future__ import annotations

from nearsight.study.design import Condition, PrimaryContrast, Study, eight

PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study() -> Study:
    conditions = tuple(Condition(factors, protocol) for factors, protocol in eight("cifar100"))
    return Study(conditions, num_seeds=5, primary=PRIMARY)
