"""Estimate how long the solvers take, from a small part of the same work on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_array

from nearsight.data import VOID
from nearsight.evaluate.solvers.logistic import LabelledRows, LogisticProblem
from nearsight.evaluate.solvers.neighbours import nearest
from nearsight.evaluate.solvers.trained_head import HeadRecipe, train_head

MEMORY, QUERIES = 8192, 1024  # vectors of the timed search
ROWS = 4096  # rows of the timed regression
STEPS_OF_A_FIT = 170  # evaluations of the loss: ViT-Ti and DeiT-Ti on VOC 2012 take 100 to 250
IMAGES, STEPS = 2, 2  # images and steps of the timed training of a head


def search_seconds(num_memory: int, num_queries: int, width: int, k: int) -> float:
    """Return the expected time of an exact search for the k nearest neighbours."""
    memory, queries = min(num_memory, MEMORY), min(num_queries, QUERIES)
    if memory < k or not queries:
        return 0.0
    vectors = torch.zeros(max(memory, queries), width)
    seconds = _seconds(lambda: nearest(vectors[:memory], vectors[:queries], k))
    return seconds * (num_memory / memory) * (num_queries / queries)


def regression_seconds(num_rows: int, width: int, num_classes: int, num_fits: float) -> float:
    """Return the expected time of logistic regressions.

    Args:
        num_rows: The number of rows of a fit.
        width: The number of features of a row.
        num_classes: The number of classes.
        num_fits: The number of fits. A fit to a part of the rows counts as that part of a fit.
    """
    rows = min(num_rows, ROWS)
    if not rows:
        return 0.0
    features = np.random.RandomState(0).standard_normal((rows, width)).astype(np.float32)
    labels = np.arange(rows) % num_classes
    ones = np.ones(rows, np.float32)
    targets = csr_array((ones, (np.arange(rows), labels)), shape=(rows, num_classes))
    problem = LogisticProblem(LabelledRows(features, targets, np.arange(rows)))
    start = np.zeros((num_classes, width + 1))
    seconds = _seconds(lambda: problem.loss(start, 1.0))
    return seconds * (num_rows / rows) * STEPS_OF_A_FIT * num_fits


def head_seconds(
    recipe: HeadRecipe,
    steps: int,
    width: int,
    num_classes: int,
    grid: tuple[int, int],
    label_size: tuple[int, int],
) -> float:
    """Return the expected time of training a head, without the features of its batches.

    Args:
        recipe: The head and its optimiser.
        steps: The number of steps.
        width: The number of features of a patch.
        num_classes: The number of classes.
        grid: Rows and columns of patches.
        label_size: Height and width of the labels of an image.
    """
    features = torch.zeros(IMAGES, width, *grid)
    labels = torch.zeros(IMAGES, *label_size, dtype=torch.int64)
    labels[:, 0, 0] = VOID

    def train() -> None:
        train_head(recipe, lambda *of: (features, labels), IMAGES, width, num_classes, steps=STEPS)

    return _seconds(train) / STEPS * steps * recipe.batch / IMAGES


def _seconds(work: Callable[[], object]) -> float:
    """Time some work twice and return the shorter time in seconds."""
    found = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)
