"""Compute intervals that cover both other seeds and other test images.

A number of a run is a mean over test images, such as the accuracy or the MAD of the most local
head. All runs of a study are tested on the same images, so an interval over seeds alone does not
show how the result would change on other images.

Every seed is tested on every image: the two factors are crossed, as readers and cases are in
radiology. The variance of the mean over S seeds and N images is
(MS_seeds + MS_images - MS_rest) / (S N), with the mean squares of a two-way table without
repetition. MS_seeds already contains the random variation of single answers, so only the variation
between images that all seeds share, MS_images - MS_rest, is added. We do not bootstrap the images
and add that variance to the variance over seeds: this would count the variation of single answers
twice and use the t-quantile of the seeds for both parts. In simulations, such intervals covered the
true value in 99.4 to 100 % of cases instead of 95 %.

The two parts have very different degrees of freedom. Each therefore uses its own t-quantile, and
the squares of the half widths are added (the method of variance estimates recovery, Zou and Donner
2008). The simulated coverage is 96 to 98 % (benchmarks/coverage.py). With Satterthwaite's degrees
of freedom it would be 92 % for 3 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nearsight.core import UserError
from nearsight.stats.estimate import Estimate, over_seeds

Runs = Mapping[int, Float[np.ndarray, " image"]]  # maps a seed to one number per image


@dataclass(frozen=True)
class ImageContrast:
    """A contrast between conditions with three intervals; report ``over_both``.

    The interval over images says how the contrast would vary with other images and the same seeds,
    and the interval over seeds the reverse. With one seed, only the interval over images exists.
    """

    over_images: Estimate
    over_seeds: Estimate | None
    over_both: Estimate | None


def image_contrasts(
    conditions: Sequence[Runs], weights: Sequence[Sequence[float]], level: float = 0.95
) -> list[ImageContrast]:
    """Return contrasts, which are weighted sums of conditions, paired by seed and by image.

    Args:
        conditions: For each condition, one number per image for each seed. Only seeds that all
            conditions have are used.
        weights: For each contrast, the weight of each condition.
        level: The confidence level of the intervals.

    Raises:
        UserError: If no seed is in all conditions, if runs have different numbers of images, or if
            there are fewer than two images.

    >>> on = {0: np.array([1.0, 0, 1]), 1: np.array([1.0, 1, 1])}
    >>> off = {0: np.zeros(3), 1: np.zeros(3)}
    >>> (found,) = image_contrasts([on, off], [(1, -1)])
    >>> round(found.over_images.value, 4), found.over_both.over
    (0.8333, 'seeds and images')
    """
    seeds = sorted(set.intersection(*(set(runs) for runs in conditions)))
    if not seeds:
        raise UserError("no seed has a run in every condition; train all conditions on one seed")
    sizes = sorted({len(runs[seed]) for runs in conditions for seed in seeds})
    if len(sizes) > 1:
        numbers = " and ".join(map(str, sizes))
        raise UserError(
            f"the runs were tested on {numbers} images; evaluate all of them on the same images"
        )
    if sizes[0] < 2:
        raise UserError(f"an interval needs at least 2 images, but there is only {sizes[0]}")
    values = np.stack([np.stack([runs[seed] for seed in seeds]) for runs in conditions])
    values = values.astype(np.float64)  # [condition, seed, image]
    return [_contrast(np.tensordot(np.asarray(w), values, 1), level) for w in weights]


def _contrast(values: Float[np.ndarray, "seed image"], level: float) -> ImageContrast:
    """Return one contrast with its three intervals."""
    from scipy.stats import t

    num_seeds, num_images = values.shape
    per_seed = values.mean(1)
    value = math.fsum(per_seed) / num_seeds
    of_images = values.mean(0)
    half = float(t.ppf((1 + level) / 2, num_images - 1)) * of_images.std(ddof=1) / num_images**0.5
    images = Estimate(value, value - half, value + half, num_images, "images")
    if num_seeds == 1:
        return ImageContrast(images, None, None)
    half = crossed_half_width(values, level)
    both = Estimate(value, value - half, value + half, num_seeds, "seeds and images")
    return ImageContrast(images, over_seeds(per_seed.tolist(), level), both)


def crossed_half_width(values: Float[np.ndarray, "seed image"], level: float = 0.95) -> float:
    """Return half the width of the interval around the mean of a table of seeds and images.

    If all images have the same numbers, it equals the t-interval over seeds. If all seeds have the
    same numbers, it equals the t-interval over images.

    >>> same_images = np.repeat([[1.0], [2.0], [3.0]], 5, axis=1)
    >>> round(crossed_half_width(same_images), 4)
    2.4841
    """
    from scipy.stats import t

    num_seeds, num_images = values.shape
    mean, of_seeds, of_images = values.mean(), values.mean(1), values.mean(0)
    rest = values - of_seeds[:, None] - of_images + mean
    seeds = num_images * ((of_seeds - mean) ** 2).sum() / (num_seeds - 1)
    images = num_seeds * ((of_images - mean) ** 2).sum() / (num_images - 1)
    chance = (rest**2).sum() / ((num_seeds - 1) * (num_images - 1))
    one, other = (float(t.ppf((1 + level) / 2, n - 1)) for n in (num_seeds, num_images))
    squares = one**2 * seeds + other**2 * max(images - chance, 0.0)
    return math.sqrt(squares / (num_seeds * num_images))
