"""Numbers of confusion matrices, for any set of images, and the table of all numbers.

A record is the confusion matrix of one image, [truth, prediction] in pixels; pixels without a label
are not in it. The matrices of a set of images are added up first, as the benchmarks do.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

from nearsight.stats.resampling import Number, weighted_mean


def class_ious(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> Float[np.ndarray, "... cls"]:
    """Intersection over union of every class; NaN where neither truth nor prediction has it.

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
    """Mean IoU over the classes that truth or prediction has, 0..1.

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
    """Share of labelled pixels that are right, 0..1."""
    hits, truth, _ = _margins(records, counts)
    return np.asarray(hits.sum(-1) / truth.sum(-1))


def hungarian_miou(
    records: Shaped[np.ndarray, "image truth prediction"], counts: Float[np.ndarray, "... image"]
) -> np.ndarray:
    """Mean IoU after predicted classes are renamed so that it is largest, as open-hummingbird does.

    Predictions are matched to classes one to one by the Hungarian algorithm, and a class that
    neither truth nor prediction has counts as 0. Both raise or lower the number for no good
    reason: it is here to be compared with published ones.

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
    """Right pixels, pixels of the truth and of the prediction by class, over each set."""
    parts = (np.einsum("icc->ic", records), records.sum(2), records.sum(1))
    hits, truth, predicted = (counts @ part.astype(np.float64) for part in parts)
    return hits, truth, predicted


# Every number by the name under which evaluate.json keeps it. A new one is a function and a line.
NUMBERS: dict[str, Number] = {
    "weighted_mean": weighted_mean,
    "miou": miou,
    "pixel_accuracy": pixel_accuracy,
    "hungarian_miou": hungarian_miou,
}


def number_name(number: Number) -> str:
    """Return the name of a function of NUMBERS."""
    return next(name for name, known in NUMBERS.items() if known is number)
