"""Compute confusion matrices from the scores of classes, and mIoU and accuracy from these."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nearsight.data import VOID
from nearsight.evaluate.features import Split, resize_labels, spread
from nearsight.evaluate.tasks.segmentation.truth import Recode
from nearsight.evaluate.tasks.task import Bench, Progress, TaskNumber
from nearsight.stats import class_ious, image_intervals, miou, pixel_accuracy

Maps = Callable[[int], Tensor]  # returns the scores [cls, row, col] of an image, on any grid
EXAMPLES, THUMB = 4, 112  # number of images to keep for the report, and their side in pixels
BAND = 0.02  # the band reaches this share of the image's diagonal from a boundary


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
    """Return which pixels are near a boundary of the true mask: within 2 % of the diagonal.

    A boundary is where neighbouring pixels have different labels, or only one of them has a label,
    because VOC leaves the outlines of its objects without a label.

    >>> boundary_band(np.array([[0, 0, 0, 0, 1, 1, 1, 1]])).astype(int).tolist()
    [[0, 0, 0, 1, 1, 0, 0, 0]]
    """
    edge = np.zeros(truth.shape, bool)
    for axis in (0, 1):
        one = [slice(None)] * 2
        other = [slice(None)] * 2
        one[axis], other[axis] = slice(None, -1), slice(1, None)
        a, b = truth[tuple(one)], truth[tuple(other)]
        differ = a != b
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


class Matrices(NamedTuple):
    """The confusion matrices of every image of a split, and some pictures of it."""

    whole: Int[np.ndarray, "image truth prediction"]
    boundary: Int[np.ndarray, "image truth prediction"]
    examples: Mapping[str, np.ndarray] = {}


def predicted_labels(
    scores: Float[Tensor, "cls row col"], size: tuple[int, int]
) -> Int[np.ndarray, "h w"]:
    """Return the class with the largest score at every pixel, after bilinear interpolation."""
    if scores.shape[1:] != size:
        scores = F.interpolate(scores[None], size, mode="bilinear", align_corners=False)[0]
    return scores.argmax(0).numpy()


def score_images(
    split: Split,
    maps: Maps,
    num_classes: int,
    *,
    label_size: tuple[int, int] | None = None,
    recode: Recode | None = None,
    progress: Progress | None = None,
) -> Matrices:
    """Predict every pixel of a split, and count the pixels by true and predicted class.

    Args:
        split: Images with masks.
        maps: Returns the scores of an image, given its number.
        num_classes: The number of classes of the scores and of the masks.
        label_size: Height and width at which predictions and truth are compared. None means the
            size of every mask.
        recode: Changes the labels of a mask before they are compared.
        progress: Called with the number of finished images and of all images.
    """
    whole, boundary = [], []
    shown = set(spread(len(split), min(EXAMPLES, len(split))).tolist())
    pictures: dict[str, list[np.ndarray]] = {"image": [], "truth": [], "predicted": []}
    for number in range(len(split)):
        truth = split.mask(number)
        truth = truth if recode is None else recode(truth)
        truth = truth if label_size is None else resize_labels(truth, label_size)
        predicted = predicted_labels(maps(number), truth.shape)
        whole.append(confusion_matrix(truth, predicted, num_classes))
        boundary.append(boundary_matrix(truth, predicted, num_classes))
        if number in shown:
            image = split.image(number).convert("RGB").resize((THUMB, THUMB))
            pictures["image"].append(np.asarray(image))
            pictures["truth"].append(resize_labels(truth, (THUMB, THUMB)).astype(np.uint8))
            pictures["predicted"].append(resize_labels(predicted, (THUMB, THUMB)).astype(np.uint8))
        if progress:
            progress(number + 1, len(split))
    examples = {name: np.stack(found) for name, found in pictures.items()}
    return Matrices(np.stack(whole), np.stack(boundary), examples)


def scoring_seconds(bench: Bench) -> float:
    """Return the expected time of scoring every image of a bench, from scoring one."""
    sizes, num_classes = bench.sizes, len(bench.train.classes)
    one = bench.val.part(np.zeros(1, np.int64), "one image")
    scores = torch.zeros(num_classes, sizes.rows, sizes.cols)
    began = time.perf_counter()
    score_images(one, lambda number: scores, num_classes)
    return (time.perf_counter() - began) * len(bench.val)


def segmentation_findings(
    matrices: Matrices, classes: tuple[str, ...], settings: Mapping[str, Any]
) -> Iterator[TaskNumber]:
    """Yield mIoU with the IoU of every class, pixel accuracy, and mIoU near boundaries."""
    ious = image_intervals(class_ious, matrices.whole)
    per_class = {
        name: [each.value, each.low, each.high]
        for name, each in zip(classes, ious)
        if math.isfinite(each.value)
    }
    details = {"per_class": per_class}
    yield TaskNumber("mIoU", matrices.whole, miou, settings, details, matrices.examples)
    yield TaskNumber("pixel accuracy", matrices.whole, pixel_accuracy, settings)
    yield TaskNumber("boundary mIoU", matrices.boundary, miou, settings)
