"""Estimate numbers with intervals over seeds or images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearsight.core import UserError

if TYPE_CHECKING:
    from torch import Tensor

NORMAL_QUANTILE = 1.959963984540054  # 97.5 % of a standard normal


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval.

    ``over`` names what was sampled (``images``, ``seeds``, or ``seeds and images``), and ``n`` says
    how many of them there were.
    """

    value: float
    low: float
    high: float
    n: int
    over: str


def over_seeds(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the mean over at least two seeds with Student's t-interval.

    Args:
        values: One number per seed.
        level: The confidence level of the interval.

    >>> estimate = over_seeds([1.0, 2.0, 3.0])
    >>> round(estimate.low, 4), estimate.value, round(estimate.high, 4)
    (-0.4841, 2.0, 4.4841)
    """
    from scipy.stats import t

    n = len(values)
    mean = math.fsum(values) / n
    half = float(t.ppf((1 + level) / 2, n - 1)) * deviation(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n, "seeds")


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1) of at least two numbers.

    >>> deviation([1.0, 2.0, 3.0])
    1.0
    """
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def paired_differences(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    """Return ``one - other`` for each seed that both have, in ascending order of the seeds.

    >>> paired_differences({0: 1.0, 2: 5.0, 1: 3.0}, {2: 1.0, 1: 1.0})
    {1: 2.0, 2: 4.0}
    """
    return {seed: one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())}


def t_interval(values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the mean, both ends of its 95 % interval, and the standard deviation over images.

    The first axis of ``values`` is that of the images. The interval is Student's, because a normal
    interval is too narrow for few images: with three images it contains the true mean in 81 % of
    cases instead of 95 %.

    Raises:
        UserError: If there are fewer than two images.

    >>> import torch
    >>> [round(x.item(), 4) for x in t_interval(torch.tensor([1.0, 2.0, 3.0]).double())]
    [2.0, -0.4841, 4.4841, 1.0]
    """
    from scipy.stats import t

    if len(values) < 2:
        raise UserError(f"an interval needs at least 2 images, but there are {len(values)}")
    mean, sd = values.mean(0), values.std(0)
    half = float(t.ppf(0.975, len(values) - 1)) * sd / len(values) ** 0.5
    return mean, mean - half, mean + half, sd


def exact_share(count: int, n: int, level: float = 0.95) -> Estimate:
    """Return the share of ``n`` seeds in which something happened, with an exact interval.

    The interval is that of Clopper and Pearson (1934). It contains the true share with probability
    ``level`` or more for every ``n``. It has a width even if all seeds agree, where a t-interval
    would have none.

    Raises:
        UserError: If ``count`` is not between 0 and ``n``, or ``n`` is 0.

    >>> found = exact_share(3, 3)
    >>> found.value, round(found.low, 4), found.high
    (1.0, 0.2924, 1.0)
    """
    from scipy.stats import beta

    if not 0 <= count <= n or n < 1:
        raise UserError(f"the count {count} is not between 0 and the number of seeds, {n}")
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, count, n - count + 1)) if count else 0.0
    high = float(beta.ppf(1 - tail, count + 1, n - count)) if count < n else 1.0
    return Estimate(count / n, low, high, n, "seeds")


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval around the share of ``n`` trials that succeeded (Wilson 1927).

    >>> [round(bound, 4) for bound in wilson_interval(0.5, 100)]
    [0.4038, 0.5962]
    """
    z = NORMAL_QUANTILE
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half
