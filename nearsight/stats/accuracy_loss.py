"""What a change costs in accuracy, counted on the same images before and after it.

Only images whose answer turned count: those that were right and are wrong now, and the reverse.
The interval is over images: how far the loss would move with other test images of this one run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from nearsight.core import UserError
from nearsight.stats.estimate import NORMAL_QUANTILE


@dataclass(frozen=True)
class AccuracyLoss:
    """Accuracy before minus after, a share of the images (-1..1), with its 95 % interval."""

    value: float
    low: float
    high: float
    num_images: int
    num_spoilt: int  # right before, wrong after
    num_mended: int  # wrong before, right after
    p: float  # exact, two-sided


def accuracy_loss(
    before: Bool[np.ndarray, " image"], after: Bool[np.ndarray, " image"]
) -> AccuracyLoss:
    """Loss, interval and p from which images were answered rightly before and after.

    The interval is that of Agresti and Min (2005): half an image is added to each of the four
    counts (right or wrong, before and after), so that no turned answer does not mean certainty. The
    p is McNemar's, exact: how likely a coin shares the turned answers as unevenly, or more.

    >>> before = np.array([True] * 6 + [False] * 4)
    >>> after = np.array([False] * 4 + [True] * 2 + [True] + [False] * 3)
    >>> loss = accuracy_loss(before, after)
    >>> round(loss.value, 3), loss.num_spoilt, loss.num_mended, round(loss.p, 3)
    (0.3, 4, 1, 0.375)
    """
    from scipy.stats import binomtest

    if len(before) != len(after) or not len(before):
        raise UserError(
            "expected answers to the same images before and after, at least one, "
            f"got {len(before)} and {len(after)}"
        )
    n = len(before)
    spoilt, mended = int((before & ~after).sum()), int((after & ~before).sum())
    turned, net, total = spoilt + mended + 1, spoilt - mended, n + 2  # half an image in four counts
    half = NORMAL_QUANTILE * math.sqrt(turned - net**2 / total) / total
    p = float(binomtest(spoilt, spoilt + mended).pvalue) if spoilt + mended else 1.0
    return AccuracyLoss(
        net / n, max(-1.0, net / total - half), min(1.0, net / total + half), n, spoilt, mended, p
    )
