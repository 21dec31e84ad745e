"""Estimate numbers with intervals over images and seeds, compare them in pairs, and test them.

The room works on arrays and plain numbers. It reads no files and does not import torch.
"""

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
    exact_share,
    over_seeds,
    paired_differences,
    t_interval,
    wilson_interval,
)
from nearsight.stats.extremes import (
    ExtremeMean,
    extreme_difference,
    extreme_interval,
    other_half_values,
    selected_heads,
)
from nearsight.stats.resampling import (
    Number,
    bootstrap_counts,
    image_interval,
    image_intervals,
    paired_image_interval,
    weighted_mean,
)
from nearsight.stats.seeds import (
    FEWEST_FOR_P,
    MOST_FOR_P,
    holm,
    sign_flip_p,
    simultaneous_level,
    smallest_p_text,
)
from nearsight.stats.seeds_and_images import ImageContrast, Runs, image_contrasts

__all__ = [
    "FEWEST_FOR_P",
    "MOST_FOR_P",
    "NUMBERS",
    "Estimate",
    "ExtremeMean",
    "ImageContrast",
    "Number",
    "Runs",
    "accuracy_loss",
    "bootstrap_counts",
    "class_ious",
    "deviation",
    "exact_share",
    "extreme_difference",
    "extreme_interval",
    "holm",
    "hungarian_miou",
    "image_contrasts",
    "image_interval",
    "image_intervals",
    "miou",
    "number_name",
    "other_half_values",
    "over_seeds",
    "paired_differences",
    "paired_image_interval",
    "pixel_accuracy",
    "selected_heads",
    "sign_flip_p",
    "simultaneous_level",
    "smallest_p_text",
    "t_interval",
    "weighted_mean",
    "wilson_interval",
]
