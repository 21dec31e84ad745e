"""Does the Modern protocol make attention more local on every data set?

Baseline and Modern, the compact ViT, CIFAR-10, CIFAR-100 and Tiny-ImageNet.
Command: nearsight study run protocol-datasets --workers 2 --out studies-out/datasets
Hardware: a GPU per cell; a core does 21 to 25 images/s of 24 to 32 million
Time: not run here at this scale; `study plan` calibrates it
Expected: the paper's table 1, one seed: accuracy 78.46 and 84.84 % (CIFAR-10), 48.53 and 63.38 %
  (CIFAR-100), 34.89 and 41.92 % (Tiny-ImageNet); min MAD 0.316 and 0.008 on CIFAR-100
"""

from __future__ import annotations

from nearsight.protocol import preset
from nearsight.study.design import Condition, PrimaryContrast, Study

DATA = ("cifar10", "cifar100", "tiny-imagenet")


PRIMARY = PrimaryContrast("min_mad", {"protocol": "modern"}, {"protocol": "baseline"})


def study() -> Study:
    return Study(
        tuple(
            Condition({"data": data, "protocol": name}, preset(name, data))
            for data in DATA
            for name in ("baseline", "modern")
        ),
        num_seeds=3,
        primary=PRIMARY,
    )
