"""Compute scores from confusion matrices, for any set of images.

A record is the confusion matrix of one image, [truth, prediction] in pixels. It leaves out pixels
without a label. The matrices of all images are summed before a score is computed, as the published
benchmarks do. ``NUMBERS`` lists every score by its name.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

from nearsight.stats.resampling import Number, weighted_mean


def class_ious(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> Float[np.ndarray, "... cls"]:
    """Return the intersection over union of every class.

    The value is NaN for a class that occurs neither in the truth nor in the predictions.

    >>> class_ious(np.array([[[3, 1], [0, 0]], [[0, 0], [2, 2]]]), np.ones(2)).tolist()
    [0.5, 0.4]
    """
    hits, truth, predicted = _margins(records, counts)
    union = truth + predicted - hits
    with np.errstate(invalid="ignore", divide="ignore"):
        return hits / union


def miou(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> np.ndarray:
    """Return the mean IoU (0 to 1) over the classes that occur in the truth or the predictions.

    >>> float(miou(np.array([[[3, 1], [0, 0]], [[0, 0], [2, 2]]]), np.ones(2)))
    0.45
    """
    ious = class_ious(records, counts)
    there = np.isfinite(ious)
    total = np.where(there, ious, 0).sum(-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / there.sum(-1))


def pixel_accuracy(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> np.ndarray:
    """Return the share of labelled pixels that are predicted correctly (0 to 1)."""
    hits, truth, _ = _margins(records, counts)
    return np.asarray(hits.sum(-1) / truth.sum(-1))


def hungarian_miou(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> np.ndarray:
    """Return the mean IoU after the best renaming of the predicted classes.

    The Hungarian algorithm matches predicted classes to true classes one to one, and a class that
    occurs in neither counts as 0. Both steps change the score without saying anything about the
    model. The function exists because open-hummingbird reports this number.

    >>> swapped = np.array([[[0, 4, 0], [4, 0, 0], [0, 0, 0]]])
    >>> float(hungarian_miou(swapped, np.ones(1))), float(miou(swapped, np.ones(1)))
    (0.6666666666666666, 0.0)
    """
    from scipy.optimize import linear_sum_assignment

    num = records.shape[1]
    summed = (counts @ records.reshape(len(records), -1).astype(np.float64)).reshape(-1, num, num)
    union = summed.sum(2)[:, :, None] + summed.sum(1)[:, None, :] - summed
    ious = summed / np.maximum(union, 1e-8)
    best = [each[linear_sum_assignment(each, maximize=True)].mean() for each in ious]
    return np.array(best).reshape(counts.shape[:-1])


def _margins(records: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the correct, true and predicted pixels of each class, summed over the images."""
    parts = (np.einsum("icc->ic", records), records.sum(2), records.sum(1))
    hits, truth, predicted = (counts @ part.astype(np.float64) for part in parts)
    return hits, truth, predicted


# Every score by its name in evaluate.json. To add a score, write a function and add a line here.
NUMBERS: dict[str, Number] = {
    "weighted_mean": weighted_mean,
    "miou": miou,
    "pixel_accuracy": pixel_accuracy,
    "hungarian_miou": hungarian_miou,
}


def number_name(number: Number) -> str:
    """Return the name under which ``NUMBERS`` lists a function.

    >>> number_name(miou)
    'miou'
    """
    return next(name for name, known in NUMBERS.items() if known is number)
