"""Estimate the smallest (or largest) mean over many heads without selection bias.

The smallest of several sample means is biased: it was selected because it happened to be small on
these images. If several heads are nearly tied, a bootstrap of the minimum has the same bias, and
its interval contains the true value in only 12 to 44 % of simulations. Here the head is selected on
one half of the images and its mean is computed on the other half, and vice versa, so that the
selection does not bias the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nearsight.core import UserError

HALVES = (slice(0, None, 2), slice(1, None, 2))  # images with even and with odd indices


@dataclass(frozen=True)
class ExtremeMean:
    """The smallest or largest head mean, its 95 % interval over images, and the head's column."""

    value: float
    low: float
    high: float
    place: int


def other_half_values(
    values: Float[np.ndarray, "image head"], largest: bool = False
) -> Float[np.ndarray, " image"]:
    """Return, for each image, the value of the head that the other half of the images selects.

    Images with even indices select the head for those with odd indices, and vice versa. The mean of
    the result estimates the extreme head mean without selection bias. To compare two models on the
    same images, subtract these values image by image.

    Raises:
        UserError: If there are fewer than two images.

    >>> other_half_values(np.array([[1.0, 2.0], [5.0, 3.0], [1.0, 2.0], [5.0, 3.0]])).tolist()
    [2.0, 5.0, 2.0, 5.0]
    """
    if len(values) < 2:
        raise UserError(f"an interval needs at least 2 images, but there are {len(values)}")
    chosen = np.empty(len(values))
    for mine, head in zip(reversed(HALVES), selected_heads(values, largest)):
        chosen[mine] = values[mine, head]
    return chosen


def selected_heads(
    values: Float[np.ndarray, "image head"], largest: bool = False
) -> tuple[int, int]:
    """Return the heads that the images with even and with odd indices select.

    If they differ, the images do not tell which head is the most extreme. An interval of
    ``other_half_values`` then does not contain the variation of this choice.

    >>> selected_heads(np.array([[1.0, 2.0], [5.0, 3.0], [1.0, 2.0], [5.0, 3.0]]))
    (0, 1)
    """
    sign = -1 if largest else 1
    even, odd = (int((sign * values[half].mean(0)).argmin()) for half in HALVES)
    return even, odd


def extreme_interval(values: Float[np.ndarray, "image head"], largest: bool = False) -> ExtremeMean:
    """Return the smallest (or largest) head mean over all images, with a 95 % interval.

    For the smallest mean, the upper end comes from the mean of ``other_half_values``, which is not
    biased however many heads are tied. The lower end is the lowest that the t-interval of any head
    reaches, because the smallest true mean belongs to one of the heads. If one head is clearly the
    smallest, both ends are those of its t-interval. In simulations the interval contains the true
    value in 94 to 98 % of cases (benchmarks/coverage.py).

    >>> found = extreme_interval(np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]))
    >>> found.value, round(found.low, 4), round(found.high, 4), found.place
    (2.0, -0.4841, 4.4841, 0)
    """
    from scipy.stats import t

    values = -np.asarray(values, np.float64) if largest else np.asarray(values, np.float64)
    chosen = other_half_values(values)
    n, means = len(values), values.mean(0)
    quantile = float(t.ppf(0.975, n - 1)) / n**0.5
    low = float((means - quantile * values.std(0, ddof=1)).min())
    high = float(chosen.mean() + quantile * chosen.std(ddof=1))
    place = int(means.argmin())
    value = float(means[place])
    high = max(high, value)
    return ExtremeMean(*((-value, -high, -low) if largest else (value, low, high)), place)
