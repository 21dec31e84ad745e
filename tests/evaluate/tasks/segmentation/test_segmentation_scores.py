"""Confusion matrices and what is made of them, against torchmetrics and plain loops."""

from __future__ import annotations

import math

import numpy as np
import torch
from evaluate.made_sets import CLASSES, pictures
from torchmetrics.functional.classification import multiclass_jaccard_index

from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
    boundary_band,
    predicted_labels,
    score_images,
    segmentation_findings,
)
from nearsight.evaluate.tasks.segmentation.truth import patch_counts, patch_labels
from nearsight.models.layers import Grid
from nearsight.stats import hungarian_miou, image_interval


def drawn_maps(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(11, 3, 3, 5, generator=generator)
    return lambda number: scores[number]


def test_miou_is_torchmetrics_jaccard_index_of_all_pixels() -> None:
    split, maps = pictures(11, 1), drawn_maps(5)
    matrices = score_images(split, maps, 3)
    found = {finding.name: finding for finding in segmentation_findings(matrices, CLASSES, {})}
    truth = torch.from_numpy(np.stack([split.mask(i) for i in range(11)])).long()
    predicted = torch.stack(
        [torch.from_numpy(predicted_labels(maps(i), (24, 40))) for i in range(11)]
    )
    expected = multiclass_jaccard_index(predicted, truth, 3, ignore_index=255)
    each = multiclass_jaccard_index(predicted, truth, 3, average="none", ignore_index=255)
    whole = found["mIoU"]
    number = image_interval(whole.number, whole.records).value
    assert math.isclose(number, float(expected), rel_tol=1e-5)
    values = [value for value, _, _ in whole.details["per_class"].values()]
    np.testing.assert_allclose(values, each, rtol=1e-5)
    right = (predicted == truth)[truth != 255].double().mean()
    pixels = found["pixel accuracy"]
    assert math.isclose(image_interval(pixels.number, pixels.records).value, float(right))
    assert whole.records.sum() == 11 * (24 * 40 - 1)


def test_the_boundary_matrix_counts_the_pixels_of_the_band_alone() -> None:
    split, maps = pictures(3, 1), drawn_maps(7)
    matrices = score_images(split, maps, 3)
    for number in range(3):
        mask = split.mask(number)
        band = boundary_band(mask)
        assert matrices.boundary[number].sum() == (band & (mask != 255)).sum()
        near = np.zeros_like(band)  # a plain loop: a pixel beside another label
        for i, j in np.ndindex(mask.shape):
            for a, b in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                if 0 <= a < 24 and 0 <= b < 40 and 255 not in (mask[i, j], mask[a, b]):
                    near[i, j] |= mask[i, j] != mask[a, b]
        assert (near <= band).all()


def test_an_outline_without_a_label_is_a_boundary() -> None:
    mask = np.zeros((30, 40), np.uint8)  # the band reaches 1 pixel beyond the boundary's two
    mask[:, 19:21], mask[:, 21:] = 255, 1
    assert np.flatnonzero(boundary_band(mask)[7]).tolist() == [18, 19, 20, 21]


def test_a_label_size_compares_resized_truth() -> None:
    split, maps = pictures(2, 1), drawn_maps(3)
    matrices = score_images(split, maps, 3, label_size=(6, 10))
    assert matrices.whole.sum((1, 2)).tolist() == [60, 60]  # none takes the corner without a label


def test_labels_of_patches_are_shares_of_their_labelled_pixels() -> None:
    split = pictures(5, 0)
    labels = patch_labels(split, Grid(3, 5), 3)
    for number in range(5):
        mask = split.mask(number)
        for patch in range(15):
            row, col = divmod(patch, 5)
            tile = mask[8 * row : 8 * row + 8, 8 * col : 8 * col + 8]
            known = tile[tile != 255]
            expected = [(known == each).mean() for each in range(3)]
            place = number * 15 + patch
            np.testing.assert_allclose(labels.shares[[place]].toarray()[0], expected, rtol=1e-6)
            assert labels.known[place] == known.size / 64
    assert labels.majority()[0] == 0


def test_a_patch_without_a_labelled_pixel_is_not_labelled() -> None:
    split = pictures(1, 0)
    mask = split.mask(0).copy()
    mask[:8, :8] = 255
    split = type(split)(**vars(split) | {"masks": lambda i: mask})
    labels = patch_labels(split, Grid(3, 5), 3)
    assert labels.labelled.tolist() == list(range(1, 15))
    assert labels.majority()[0] == -1


def test_a_mask_that_the_grid_does_not_divide_is_counted_once() -> None:
    mask = np.arange(7 * 11).reshape(7, 11) % 3
    counts = patch_counts(mask, Grid(3, 5), 3)
    assert counts.sum() == 77
    expected = np.zeros((15, 3), int)
    for i, j in np.ndindex(7, 11):
        expected[i * 3 // 7 * 5 + j * 5 // 11, mask[i, j]] += 1
    np.testing.assert_array_equal(counts, expected)


def test_hungarian_renaming_is_the_best_of_all_permutations() -> None:
    from itertools import permutations

    records = np.random.RandomState(3).randint(0, 9, (5, 4, 4))
    total = records.sum(0)
    best = 0.0
    for order in permutations(range(4)):
        renamed = total[:, order]
        hits = np.diag(renamed)
        ious = hits / (renamed.sum(0) + renamed.sum(1) - hits)
        best = max(best, ious.mean())
    assert math.isclose(float(hungarian_miou(records, np.ones(5))), best)
