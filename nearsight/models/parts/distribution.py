"""Estimate the distribution of a positive number over many images in constant memory.

Means are exact, and kept per image to compute their interval. Percentiles come from a histogram
from 1e-4 to 1e4 with bins that are 0.23 % wide, so they are accurate to 0.23 %. Smaller and larger
numbers are counted in the outermost bins. No percentile is smaller than the smallest number or
larger than the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.stats import t_interval

PERCENTILES = (5, 25, 50, 75, 95)
LOWEST, DECADES, PER_DECADE = 1e-4, 8, 1024
METHOD = (
    "means exact, with 95 % intervals over images; percentiles from a histogram over all images, "
    "right to 0.23 %"
)


class Distribution:
    """Positive numbers of many images: their mean with its interval, and percentiles.

    >>> halves = Distribution()
    >>> halves.add(torch.tensor([[0.5, 1.5], [2.0, 4.0]]))
    >>> halves.mean, round(halves.percentiles[2], 2), halves.percentiles[4]
    (2.0, 1.5, 4.0)
    """

    def __init__(self) -> None:
        self.counts = np.zeros(DECADES * PER_DECADE, np.int64)
        self.least, self.most = math.inf, -math.inf
        self.image_means = np.zeros(0)  # in the order of the images

    def add(self, values: Float[Tensor, "image number"]) -> None:
        """Add the numbers of some more images."""
        bins = ((values / LOWEST).clamp(min=1).log10() * PER_DECADE).long()
        bins = bins.clamp(max=len(self.counts) - 1).flatten()
        self.counts += torch.bincount(bins, minlength=len(self.counts)).cpu().numpy()
        self.least = min(self.least, float(values.min()))
        self.most = max(self.most, float(values.max()))
        self.image_means = np.append(self.image_means, values.cpu().double().mean(1).numpy())

    @property
    def mean(self) -> float:
        """The mean over images."""
        return float(self.image_means.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean over images."""
        _, low, high, _ = t_interval(torch.from_numpy(self.image_means))
        return low.item(), high.item()

    @property
    def percentiles(self) -> list[float]:
        """The percentiles at 5, 25, 50, 75 and 95 %."""
        below = np.cumsum(self.counts)
        percentiles = []
        for percentile in PERCENTILES:
            rank = percentile / 100 * below[-1]
            index = int(np.searchsorted(below, rank))
            inside = 1 - (below[index] - rank) / max(1, self.counts[index])
            value = LOWEST * 10 ** ((index + inside) / PER_DECADE)
            percentiles.append(float(np.clip(value, self.least, self.most)))
        return percentiles

    @classmethod
    def merge(cls, shares: Sequence[Distribution]) -> Distribution:
        """Merge distributions of several processes, each over a part of the images, in order."""
        whole = cls()
        whole.counts = np.sum([share.counts for share in shares], axis=0)
        whole.least = min(share.least for share in shares)
        whole.most = max(share.most for share in shares)
        whole.image_means = np.concatenate([share.image_means for share in shares])
        return whole

    def contents(self) -> dict[str, Any]:
        """Return the mean, its interval and the percentiles for JSON."""
        low, high = self.interval
        return {"mean": self.mean, "low": low, "high": high, "percentiles": self.percentiles}
