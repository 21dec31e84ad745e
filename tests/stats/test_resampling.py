"""Intervals over images cover what they promise, and mIoU is that of torchmetrics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from statsmodels.stats.proportion import proportion_confint
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

from nearsight.core import UserError
from nearsight.stats import (
    bootstrap_counts,
    class_ious,
    image_interval,
    miou,
    paired_image_interval,
    pixel_accuracy,
    weighted_mean,
)

NUM_CLASSES = 5


def made_matrices(random: np.random.RandomState, num: int, skill: np.ndarray) -> np.ndarray:
    """Confusion matrices of images that have some classes, at varying skill."""
    records = np.zeros((num, NUM_CLASSES, NUM_CLASSES), np.int64)
    for image in range(num):
        present = random.permutation(NUM_CLASSES)[: random.randint(1, 4)]
        for truth in present:
            area = random.randint(50, 500)
            right = min(1.0, max(0.0, skill[image] + 0.1 * random.randn()))
            hits = random.binomial(area, right)
            records[image, truth, truth] = hits
            records[image, truth, random.randint(NUM_CLASSES)] += area - hits
    return records


def test_miou_and_accuracy_are_those_of_torchmetrics() -> None:
    random = np.random.RandomState(0)
    truth, predicted = random.randint(0, NUM_CLASSES, (2, 7, 13, 11))
    records = np.stack(
        [
            np.bincount((t * NUM_CLASSES + p).ravel(), minlength=25).reshape(5, 5)
            for t, p in zip(truth, predicted)
        ]
    )
    given = torch.from_numpy(predicted), torch.from_numpy(truth)
    every = np.ones(7)
    jaccard = MulticlassJaccardIndex(NUM_CLASSES, average="none")(*given)
    np.testing.assert_allclose(class_ious(records, every), jaccard, rtol=1e-6)
    macro = MulticlassJaccardIndex(NUM_CLASSES)(*given)
    np.testing.assert_allclose(miou(records, every), macro, rtol=1e-6)
    accuracy = MulticlassAccuracy(NUM_CLASSES, average="micro")(*given)
    np.testing.assert_allclose(pixel_accuracy(records, every), accuracy, rtol=1e-6)


def test_a_resample_is_the_number_over_the_images_drawn() -> None:
    records = made_matrices(np.random.RandomState(1), 9, np.full(9, 0.7))
    counts = np.array([0, 2, 1, 0, 0, 3, 1, 1, 1.0])
    drawn = np.repeat(records, counts.astype(int), 0)
    assert miou(records, counts[None])[0] == pytest.approx(float(miou(drawn, np.ones(9))))


@pytest.mark.parametrize("right", [False, True])
def test_answers_that_are_all_alike_have_an_interval_with_width(right: bool) -> None:
    """No right answer in 30 leaves room for a share of 11 %; every bootstrap resample says 0."""
    found = image_interval(weighted_mean, np.full(30, right))
    bounds = proportion_confint(30 * right, 30, method="wilson")
    assert (found.low, found.high) == pytest.approx(bounds, abs=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 1
    constant = image_interval(weighted_mean, np.full(30, 0.7))  # no share of right answers
    assert (constant.low, constant.high) == pytest.approx((0.7, 0.7))


def test_an_absent_class_does_not_count() -> None:
    records = np.zeros((1, 3, 3))
    records[0, :2, :2] = [[6, 2], [0, 4]]
    assert float(miou(records, np.ones(1))) == pytest.approx((6 / 8 + 4 / 6) / 2)


def test_counts_draw_as_many_images_as_there_are() -> None:
    counts = bootstrap_counts(37)
    assert (counts.sum(1) == 37).all()
    assert abs(counts.mean() - 1) < 1e-12
    assert abs((counts == 0).mean() - (1 - 1 / 37) ** 37) < 0.01


def test_images_of_different_sets_are_not_paired() -> None:
    with pytest.raises(UserError, match="3 and 4 images"):
        paired_image_interval(weighted_mean, np.ones(3), np.ones(4))


@pytest.mark.slow
def test_intervals_of_miou_and_of_paired_differences_cover_95_percent() -> None:
    random = np.random.RandomState(5)
    population = 20_000
    shared = random.uniform(0.4, 0.9, population)
    one = made_matrices(random, population, shared)
    other = made_matrices(random, population, shared - 0.05)
    every = np.ones(population)
    truth = float(miou(one, every))
    apart = truth - float(miou(other, every))
    n, trials = 400, 1000
    counts = bootstrap_counts(n)[:600]
    held = np.zeros(2)
    for _ in range(trials):
        drawn = random.randint(0, population, n)
        alone = image_interval(miou, one[drawn], counts)
        pair = paired_image_interval(miou, one[drawn], other[drawn], counts)
        held += [alone.low <= truth <= alone.high, pair.low <= apart <= pair.high]
    assert (held / trials >= 0.93).all()
    assert (held / trials <= 0.97).all()
