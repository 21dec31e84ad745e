"""Measure how much accuracy a change to a model costs, on the same images before and after it.

Only images whose prediction changed between right and wrong contribute. The interval is over
images: it says how much the loss of this one run would vary with other test images.
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
    """The accuracy before minus the accuracy after (-1 to 1), with its 95 % interval."""

    value: float
    low: float
    high: float
    num_images: int
    num_spoilt: int  # right before, wrong after
    num_mended: int  # wrong before, right after
    p: float  # exact, two-sided McNemar test


def accuracy_loss(
    before: Bool[np.ndarray, " image"], after: Bool[np.ndarray, " image"]
) -> AccuracyLoss:
    """Return the loss of accuracy with its interval and p value.

    The interval is that of Agresti and Min (2005). It adds half an image to each of the four counts
    (right or wrong, before and after), so that its width is not zero if no prediction changed. The
    p value is that of the exact McNemar test: the probability that a fair coin splits the changed
    predictions at least as unevenly.

    Args:
        before: Whether each image was classified correctly before the change.
        after: The same after the change, for the same images in the same order.

    Raises:
        UserError: If there are no images, or the numbers of images differ.

    >>> before = np.array([True] * 6 + [False] * 4)
    >>> after = np.array([False] * 4 + [True] * 2 + [True] + [False] * 3)
    >>> loss = accuracy_loss(before, after)
    >>> round(loss.value, 3), loss.num_spoilt, loss.num_mended, round(loss.p, 3)
    (0.3, 4, 1, 0.375)
    """
    from scipy.stats import binomtest

    if len(before) != len(after) or not len(before):
        raise UserError(
            f"the predictions before and after are for {len(before)} and {len(after)} images; "
            "give predictions for the same images, and for at least one"
        )
    n = len(before)
    spoilt, mended = int((before & ~after).sum()), int((after & ~before).sum())
    # Agresti and Min add half an image to each of the four counts.
    changed, net, total = spoilt + mended + 1, spoilt - mended, n + 2
    half = NORMAL_QUANTILE * math.sqrt(changed - net**2 / total) / total
    p = float(binomtest(spoilt, spoilt + mended).pvalue) if spoilt + mended else 1.0
    return AccuracyLoss(
        net / n, max(-1.0, net / total - half), min(1.0, net / total + half), n, spoilt, mended, p
    )
