"""Estimates with intervals over images and seeds, paired differences, tests; no torch, no files."""

from __future__ import annotations

from nearsight.stats.accuracy import accuracy_loss
from nearsight.stats.estimate import (
    Estimate,
    deviation,
    normal_interval,
    over_seeds,
    paired,
    wilson_interval,
)
from nearsight.stats.seeds import FEWEST_FOR_P, MOST_FOR_P, holm, sign_flip_p, smallest_p_text

__all__ = [
    "FEWEST_FOR_P",
    "MOST_FOR_P",
    "Estimate",
    "accuracy_loss",
    "deviation",
    "holm",
    "normal_interval",
    "over_seeds",
    "paired",
    "sign_flip_p",
    "smallest_p_text",
    "wilson_interval",
]
