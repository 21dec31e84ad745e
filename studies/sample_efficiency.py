"""Does a ConViT need less data than a plain ViT of the same size?

Class-balanced fractions of CIFAR-100 with epochs scaled by 1 / fraction, the DeiT recipe, the
compact ConViT and the plain ViT of as many heads.
Command: nearsight study run sample-efficiency --workers 2 --out studies-out/samples
Hardware: a GPU per cell; a core does 21 to 25 images/s of 12 million
Time: not run here at this scale; `nano` with 10 epochs is in docs/experiment-log.md
Expected: the ConViT paper's table 2 (ImageNet, ConViT-S over DeiT-S, one seed): relative gains of
  37, 24, 12, 5 and 2 % with 5, 10, 30, 50 and 100 % of the data
"""

from __future__ import annotations

from nearsight.protocol import FRACTIONS, at_fraction, preset
from nearsight.study.design import Condition, PrimaryContrast, Study

MODELS = {"plain": "convit-gpsa", "convit": "convit"}


PRIMARY = PrimaryContrast(
    "accuracy",
    {"model": "convit", "fraction": FRACTIONS[0]},
    {"model": "plain", "fraction": FRACTIONS[0]},
)


def study() -> Study:
    return Study(
        tuple(
            Condition(
                {"model": model, "fraction": fraction},
                at_fraction(preset(name, "cifar100"), fraction),
            )
            for fraction in FRACTIONS
            for model, name in MODELS.items()
        ),
        primary=PRIMARY,
    )
