"""Intervals over seeds and images together: how far a number moves with other seeds and images.

A number of a run is a mean over test images: the share of right answers, or the MAD of its most
local head. All runs of a study are tested on the same images, so an interval over seeds alone says
nothing of how the result would change on others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nearsight.core import UserError
from nearsight.stats.estimate import Estimate, over_seeds

BOUNDS = (0.025, 0.975)
RESAMPLES = 1000
CHUNK = 50  # resamples at once, so that memory stays small
SEED = 0  # RandomState never changes its numbers, which Generator may

Runs = Mapping[int, Float[np.ndarray, " image"]]  # by seed, a number per image


@dataclass(frozen=True)
class ImageContrast:
    """A contrast between conditions, three ways."""

    over_images: Estimate  # these seeds, other images
    over_seeds: Estimate | None  # these images, other seeds: the t-interval; None with one seed
    over_both: Estimate | None  # other seeds and images: the one to report


def resampled_means(
    values: Float[np.ndarray, "row image"], num_resamples: int = RESAMPLES
) -> Float[np.ndarray, "row resample"]:
    """Return the mean of every row in bootstrap resamples of the images, the same for all rows."""
    num_images, random = values.shape[1], np.random.RandomState(SEED)
    found = []
    for start in range(0, num_resamples, CHUNK):
        size = min(CHUNK, num_resamples - start)
        drawn = random.randint(0, num_images, (size, num_images))
        cells = drawn + np.arange(size)[:, None] * num_images
        counts = np.bincount(cells.ravel(), minlength=size * num_images)
        found.append(values @ counts.reshape(size, num_images).T / num_images)
    return np.concatenate(found, axis=1)


def image_contrasts(
    conditions: Sequence[Runs],
    weights: Sequence[Sequence[float]],
    num_resamples: int = RESAMPLES,
) -> list[ImageContrast]:
    """Return weighted sums of conditions, paired by seed and by image.

    Args:
        conditions: Per condition and seed, one number per image. Seeds that a condition lacks are
            left out.
        weights: For every contrast, the weight of each condition.
        num_resamples: How often the images are resampled.

    Raises:
        UserError: No seed is in all conditions, or runs have different numbers of images.

    >>> on = {0: np.array([1.0, 0, 1]), 1: np.array([1.0, 1, 1])}
    >>> off = {0: np.zeros(3), 1: np.zeros(3)}
    >>> (found,) = image_contrasts([on, off], [(1, -1)])
    >>> round(found.over_images.value, 4), found.over_both.over
    (0.8333, 'seeds and images')
    """
    seeds = sorted(set.intersection(*(set(runs) for runs in conditions)))
    if not seeds:
        raise UserError("expected a seed that every condition has, got none")
    sizes = sorted({len(runs[seed]) for runs in conditions for seed in seeds})
    if len(sizes) > 1:
        told = " and ".join(map(str, sizes))
        raise UserError(f"expected the same test images for every run, got {told} images")
    values = np.stack([np.stack([runs[seed] for seed in seeds]) for runs in conditions])
    values = values.astype(np.float64)  # [condition, seed, image]
    rows = values.reshape(-1, sizes[0])
    resampled = resampled_means(rows, num_resamples).reshape(*values.shape[:2], -1)
    means = values.mean(-1)  # [condition, seed]
    return [
        _contrast(np.asarray(w) @ means, np.tensordot(np.asarray(w), resampled, 1), sizes[0])
        for w in weights
    ]


def _contrast(found: np.ndarray, resampled: np.ndarray, num_images: int) -> ImageContrast:
    """``found`` [seed], ``resampled`` [seed, resample]."""
    low, high = np.quantile(resampled.mean(0), BOUNDS)
    value = math.fsum(found) / len(found)
    images = Estimate(value, float(low), float(high), num_images, "images")
    if len(found) == 1:
        return ImageContrast(images, None, None)
    both = Estimate(value, *mixture_interval(resampled), len(found), "seeds and images")
    return ImageContrast(images, over_seeds(found.tolist()), both)


def mixture_interval(resampled: Float[np.ndarray, "seed resample"]) -> tuple[float, float]:
    """2.5 % and 97.5 % points of the mixture, over resamples, of mean + se * t(n - 1) over seeds.

    >>> same_images = np.repeat([[1.0], [2.0], [3.0]], 5, axis=1)
    >>> [round(bound, 4) for bound in mixture_interval(same_images)]
    [-0.4841, 4.4841]
    """
    from scipy.optimize import brentq
    from scipy.stats import t

    n = len(resampled)
    mean, error = resampled.mean(0), resampled.std(0, ddof=1) / n**0.5
    if error.max() <= 1e-12 * max(1.0, float(np.abs(mean).max())):  # the seeds agree
        low, high = np.quantile(mean, BOUNDS)
        return float(low), float(high)
    error = np.maximum(error, 1e-9 * error.max())
    reach = float(t.ppf(BOUNDS[1], n - 1)) * error.max() * 1.01
    ends = mean.min() - reach, mean.max() + reach

    def bound(share: float) -> float:
        return float(brentq(lambda x: t.cdf((x - mean) / error, n - 1).mean() - share, *ends))

    return bound(BOUNDS[0]), bound(BOUNDS[1])
