"""The confusion matrices of one image: over all its pixels, and near the boundaries."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int

from nearsight.evaluate.features import VOID

BAND = 0.02  # of the image's diagonal: how far from a boundary the band reaches


def confusion_matrix(
    truth: Int[np.ndarray, "row col"], predicted: Int[np.ndarray, "row col"], num_classes: int
) -> Int[np.ndarray, "truth prediction"]:
    """Count the labelled pixels of an image by truth and prediction.

    >>> confusion_matrix(np.array([[0, 1, 255]]), np.array([[0, 0, 1]]), 2).tolist()
    [[1, 0], [1, 0]]
    """
    known = truth != VOID
    cells = truth[known].astype(np.int64) * num_classes + predicted[known]
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, -1).astype(np.int32)


def boundary_band(truth: Int[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
    """Return which pixels are near a boundary of the truth: within 2 % of the diagonal.

    A boundary is where neighbouring pixels have different labels; the border of an unlabelled
    region is none.

    >>> boundary_band(np.array([[0, 0, 0, 0, 1, 1, 1, 1]])).astype(int).tolist()
    [[0, 0, 0, 1, 1, 0, 0, 0]]
    """
    edge = np.zeros(truth.shape, bool)
    for axis in (0, 1):
        one = [slice(None)] * 2
        other = [slice(None)] * 2
        one[axis], other[axis] = slice(None, -1), slice(1, None)
        a, b = truth[tuple(one)], truth[tuple(other)]
        differ = (a != b) & (a != VOID) & (b != VOID)
        edge[tuple(one)] |= differ
        edge[tuple(other)] |= differ
    reach = max(0, round(BAND * math.hypot(*truth.shape)) - 1)
    if not reach:
        return edge
    wide = torch.from_numpy(edge)[None, None].float()
    for kernel in ((2 * reach + 1, 1), (1, 2 * reach + 1)):
        padding = (kernel[0] // 2, kernel[1] // 2)
        wide = F.max_pool2d(wide, kernel, stride=1, padding=padding)
    return wide[0, 0].bool().numpy()


def boundary_matrix(
    truth: Int[np.ndarray, "row col"], predicted: Int[np.ndarray, "row col"], num_classes: int
) -> Int[np.ndarray, "truth prediction"]:
    """Count the labelled pixels of an image inside the boundary band."""
    return confusion_matrix(
        np.where(boundary_band(truth), truth, VOID).astype(truth.dtype), predicted, num_classes
    )
