"""Bootstrap intervals over images, for scores such as mIoU that are not a mean over images.

A score is a function of the records (one per image) and of how often each image counts. A bootstrap
draws images with replacement, so a resample is a row of counts. Two models that saw the same images
are resampled together, so that the interval of their difference is a paired one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Shaped

from nearsight.core import UserError
from nearsight.stats.estimate import Estimate, wilson_interval

LEVEL = (0.025, 0.975)
RESAMPLES = 2000
SEED = 0  # for RandomState, whose numbers never change between versions of numpy

# Takes records [image, ...] and counts [..., image]; returns one number per row of counts.
Number = Callable[[np.ndarray, np.ndarray], np.ndarray]


@lru_cache(maxsize=4)
def bootstrap_counts(num_images: int) -> Float[np.ndarray, "resample image"]:
    """Return how often each image counts in each of RESAMPLES bootstrap resamples.

    The counts depend only on the number of images, so that all models use the same resamples.
    """
    drawn = np.random.RandomState(SEED).randint(0, num_images, (RESAMPLES, num_images))
    cells = drawn + np.arange(RESAMPLES)[:, None] * num_images
    counts = np.bincount(cells.ravel(), minlength=RESAMPLES * num_images)
    return counts.reshape(RESAMPLES, num_images).astype(np.float64)


def weighted_mean(
    records: Shaped[np.ndarray, "image ..."], counts: Float[np.ndarray, "... image"]
) -> np.ndarray:
    """Return the mean of the records, weighted by ``counts``.

    >>> weighted_mean(np.array([1.0, 2.0, 6.0]), np.array([[1, 1, 1], [0, 3, 1]])).tolist()
    [3.0, 3.0]
    """
    return counts @ records.astype(np.float64) / counts.sum(-1)


def image_interval(
    number: Number,
    records: Shaped[np.ndarray, "image ..."],
    counts: Float[np.ndarray, "resample image"] | None = None,
) -> Estimate:
    """Return a score over all images, with a 95 % bootstrap percentile interval.

    Resamples in which the score is undefined, because none of the classes occurs, are left out. If
    all answers are right, or all are wrong, every resample is alike and would give an interval
    without width; the interval is then Wilson's.

    Args:
        number: The score.
        records: One record per image.
        counts: The resamples to use instead of those of ``bootstrap_counts``.

    >>> counts = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
    >>> image_interval(weighted_mean, np.array([1.0, 2.0, 6.0]), counts).value
    3.0
    """
    value = float(number(records, np.ones(len(records))))
    counts = bootstrap_counts(len(records)) if counts is None else counts
    if number is weighted_mean and value in (0.0, 1.0) and bool(np.isin(records, (0, 1)).all()):
        bounds = (*wilson_interval(value, len(records)), value)  # the value is one of its ends
        low, high = max(min(bounds), 0.0), min(max(bounds), 1.0)
    else:
        low, high = _percentiles(number(records, counts))
    return Estimate(value, low, high, len(records), "images")


def image_intervals(numbers: Number, records: Shaped[np.ndarray, "image ..."]) -> list[Estimate]:
    """Return several scores of the same records with intervals, such as the IoU of each class."""
    values = numbers(records, np.ones(len(records)))
    resampled = numbers(records, bootstrap_counts(len(records)))
    bounds = [_percentiles(column) for column in resampled.T]
    return [
        Estimate(float(value), low, high, len(records), "images")
        for value, (low, high) in zip(values, bounds)
    ]


def paired_image_interval(
    number: Number,
    one: Shaped[np.ndarray, "image ..."],
    other: Shaped[np.ndarray, "image ..."],
    counts: Float[np.ndarray, "resample image"] | None = None,
) -> Estimate:
    """Return by how much the score of ``one`` exceeds that of ``other``, with a paired interval.

    Args:
        number: The score.
        one: The records of one model, one per image.
        other: The records of the other model, for the same images in the same order.
        counts: The resamples to use instead of those of ``bootstrap_counts``.

    Raises:
        UserError: If the two have different numbers of images.
    """
    if len(one) != len(other):
        raise UserError(
            f"the two models have records of {len(one)} and {len(other)} images; "
            "evaluate both on the same images"
        )
    counts = bootstrap_counts(len(one)) if counts is None else counts
    every = np.ones(len(one))
    value = float(number(one, every)) - float(number(other, every))
    low, high = _percentiles(number(one, counts) - number(other, counts))
    return Estimate(value, low, high, len(one), "images")


def _percentiles(values: Float[np.ndarray, " resample"]) -> tuple[float, float]:
    """Return both ends of the interval, without the resamples in which the score is undefined."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, LEVEL)
    return float(low), float(high)
