"""A number with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

NORMAL_QUANTILE = 1.959963984540054  # 97.5 % of a standard normal


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, and over what (``images`` or ``seeds``) and how many."""

    value: float
    low: float
    high: float
    n: int
    over: str


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share of n (Wilson 1927).

    >>> [round(bound, 4) for bound in wilson_interval(0.5, 100)]
    [0.4038, 0.5962]
    """
    z = NORMAL_QUANTILE
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half
