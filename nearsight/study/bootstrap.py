"""The smallest MAD of a model is an extreme over heads: its interval over seeds and images.

Each run's minimum is of means over test images, and on other images another head may be the most
local. So the images are resampled, the same ones for all runs, and every run's minimum is taken
anew (measure/interval.py). Each resample gives one contrast per seed, hence a mean and a standard
error over seeds. The interval of both is that of the mixture of their t-distributions: with images
that do not matter it is the t-interval over seeds, with seeds that agree the bootstrap's
percentiles. Resampling three seeds instead would give an interval that is far too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.stats import t
from torch import Tensor

from nearsight.measure.interval import RESAMPLES, resample_counts, resampled_extremes
from nearsight.report.estimate import Estimate, over_seeds

BOUNDS = (0.025, 0.975)
Runs = Mapping[int, Float[np.ndarray, "_ _"]]  # by seed: MAD per image, of every head of all layers


@dataclass(frozen=True)
class ExtremeContrast:
    """A contrast of the most local head's MAD between conditions, three ways."""

    over_images: Estimate  # these seeds, other images
    over_seeds: Estimate | None  # these images, other seeds: the t-interval; None with one seed
    over_both: Estimate | None  # other seeds and images: the one to report


def extreme_difference(one: Runs, other: Runs, num_resamples: int = RESAMPLES) -> ExtremeContrast:
    """one - other of the smallest head mean, over the seeds both have."""
    return extreme_contrast([(1.0, one), (-1.0, other)], num_resamples)


def extreme_contrast(
    weighted: Sequence[tuple[float, Runs]], num_resamples: int = RESAMPLES
) -> ExtremeContrast:
    """The weighted sum of the conditions' smallest head means, paired by seed.

    A condition alone is ``[(1, runs)]``, an effect of a 2^k factorial has weights of
    +-2 / 2^k (``factorial.signs``). Seeds that a condition lacks are left out.
    """
    seeds = sorted(set.intersection(*(set(runs) for _, runs in weighted)))
    if not seeds:
        raise ValueError("expected a seed that every condition has, got none")
    sizes = sorted({len(runs[seed]) for _, runs in weighted for seed in seeds})
    if len(sizes) > 1:
        told = " and ".join(map(str, sizes))
        raise ValueError(f"expected the same test images for every run, got {told} images")
    counts = resample_counts(sizes[0], num_resamples)
    whole = torch.ones(1, sizes[0], dtype=torch.float64)
    found = np.array([_of_seed(weighted, seed, whole)[0] for seed in seeds])
    resampled = np.stack([_of_seed(weighted, seed, counts) for seed in seeds])  # [seed, resample]
    low, high = np.quantile(resampled.mean(0), BOUNDS)
    images = Estimate(float(found.mean()), float(low), float(high), sizes[0], "images")
    if len(seeds) == 1:
        return ExtremeContrast(images, None, None)
    both = Estimate(images.value, *mixture_interval(resampled), len(seeds), "seeds and images")
    return ExtremeContrast(images, over_seeds(found.tolist()), both)


def _of_seed(weighted: Sequence[tuple[float, Runs]], seed: int, counts: Tensor) -> np.ndarray:
    """The contrast within a seed for every row of counts."""
    total = torch.zeros(len(counts), dtype=torch.float64)
    for weight, runs in weighted:
        values = torch.from_numpy(np.asarray(runs[seed], np.float64))
        total += weight * resampled_extremes(values, counts, lambda means: means.amin(-1))
    return total.numpy()


def mixture_interval(resampled: Float[np.ndarray, "seed resample"]) -> tuple[float, float]:
    """2.5 % and 97.5 % points of the mixture, over resamples, of mean + se * t(n - 1) over seeds.

    >>> same_images = np.repeat([[1.0], [2.0], [3.0]], 5, axis=1)
    >>> [round(bound, 4) for bound in mixture_interval(same_images)]
    [-0.4841, 4.4841]
    """
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
