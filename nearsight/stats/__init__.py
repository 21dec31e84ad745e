"""Estimates with intervals over images and seeds, paired differences, tests; no torch, no files."""

from __future__ import annotations

from nearsight.stats.accuracy_loss import accuracy_loss
from nearsight.stats.confusion import (
    NUMBERS,
    class_ious,
    hungarian_miou,
    miou,
    number_name,
    pixel_accuracy,
)
from nearsight.stats.estimate import (
    Estimate,
    deviation,
    normal_interval,
    over_seeds,
    paired,
    wilson_interval,
)
from nearsight.stats.resampling import (
    Number,
    bootstrap_counts,
    image_interval,
    image_intervals,
    paired_image_interval,
    weighted_mean,
)
from nearsight.stats.seeds import FEWEST_FOR_P, MOST_FOR_P, holm, sign_flip_p, smallest_p_text

__all__ = [
    "FEWEST_FOR_P",
    "MOST_FOR_P",
    "NUMBERS",
    "Estimate",
    "Number",
    "accuracy_loss",
    "bootstrap_counts",
    "class_ious",
    "deviation",
    "holm",
    "hungarian_miou",
    "image_interval",
    "image_intervals",
    "miou",
    "normal_interval",
    "number_name",
    "over_seeds",
    "paired",
    "paired_image_interval",
    "pixel_accuracy",
    "sign_flip_p",
    "smallest_p_text",
    "weighted_mean",
    "wilson_interval",
]
