"""Classify whole images by a linear probe on frozen features.

The feature of an image is its class token, the mean of its patches, or both. ``logreg`` is convex
and depends on no seed; its C is chosen by accuracy on every tenth training image. ``dino`` trains
with SGD as Caron et al. (2021): rate 0.001 x batch / 256, momentum 0.9, no weight decay, a cosine
over 50 epochs. Instead of random crops it uses cached features of the images, plain and mirrored,
prepared as for k-NN. Nothing is chosen on the scored images. The loop that trains the head is that
of segmentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from nearsight.core import UserError
from nearsight.data.draws import uniform
from nearsight.evaluate.features import PIXEL_STATISTICS, RANDOM_INITIALISATION
from nearsight.evaluate.solvers import (
    HeadRecipe,
    LabelledRows,
    LogisticModel,
    LogisticProblem,
    cosine,
    head_seconds,
    regression_seconds,
    small_head,
    train_head,
)
from nearsight.evaluate.tasks.knn import check_tokens, image_features
from nearsight.evaluate.tasks.task import Bench, Method, Task, TaskNumber, check_least
from nearsight.stats import weighted_mean

VALUES = (1e-3, 1e-2, 1e-1, 1.0)
HELD_OUT = 10  # C is chosen on one in ten training images
DINO = HeadRecipe(small_head, 1e-3, 0.0, 1024, 0, cosine, "sgd", epochs=50)  # rate per 256 images


def top_hits(logits: Float[Tensor, "image cls"], truth: Int[Tensor, " image"]) -> np.ndarray:
    """Return for each image whether its class has the largest logit, and one of the five largest.

    >>> top_hits(torch.tensor([[3.0, 2, 1, 0, -1, -2]]), torch.tensor([1])).tolist()
    [[False, True]]
    """
    best = logits.topk(min(5, logits.shape[1]), -1).indices
    hits = best == truth[:, None]
    return torch.stack([hits[:, 0], hits.any(1)], 1).numpy()


def accuracy_numbers(hits: np.ndarray, settings: Mapping[str, Any]) -> Iterator[TaskNumber]:
    """Yield top-1 and top-5 accuracy."""
    yield TaskNumber("top1", hits[:, 0], weighted_mean, settings)
    yield TaskNumber("top5", hits[:, 1], weighted_mean, settings)


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options ``tokens`` and ``C``.

    Raises:
        UserError: If the tokens are unknown, or C is negative.
    """
    check_tokens(options)
    if "C" in options:
        check_least(options, C=0)


def run_linear(bench: Bench) -> Iterator[TaskNumber]:
    """Yield top-1 and top-5 accuracy of the bench's method."""
    assert bench.train.labels is not None
    assert bench.val.labels is not None
    fit = _logreg if bench.method == "logreg" else _sgd
    tokens = str(bench.options["tokens"])
    val = image_features(bench.features(bench.val), tokens, normalise=False)
    logits, stated = fit(bench, tokens, val)
    hits = top_hits(logits, torch.from_numpy(bench.val.labels))
    yield from accuracy_numbers(hits, {**bench.settings(), **stated})


def _logreg(bench: Bench, tokens: str, val: Tensor) -> tuple[Tensor, dict[str, Any]]:
    labels = bench.train.labels
    assert labels is not None
    features = image_features(bench.features(bench.train), tokens, normalise=False).numpy()
    num, num_classes = len(labels), len(bench.train.classes)
    targets = csr_array(
        (np.ones(num, np.float32), (np.arange(num), labels)), shape=(num, num_classes)
    )
    every = np.arange(num)
    c, tried, start = float(bench.options["C"]), {}, None
    if not c:
        held_out = every[HELD_OUT - 1 :: HELD_OUT]
        if not len(held_out):
            raise UserError(
                f"C is chosen on every {HELD_OUT}th training image, but there are only {num}; use "
                "more with --num-train, or set C with --set C=1"
            )
        problem = LogisticProblem(LabelledRows(features, targets, np.setdiff1d(every, held_out)))
        found: dict[float, tuple[float, LogisticModel]] = {}
        for step, value in enumerate(VALUES, 1):
            start = problem.fit(value, start)
            predicted = start.logits(features[held_out]).argmax(1).numpy()
            found[value] = float((predicted == labels[held_out]).mean()), start
            if bench.progress:
                bench.progress(step, len(VALUES))
        c = max(found, key=lambda value: (found[value][0], -value))
        start = found[c][1]
        tried = {f"{value:.3g}": round(score, 5) for value, (score, _) in found.items()}
    fitted = LogisticProblem(LabelledRows(features, targets, every)).fit(c, start)
    chosen = f"C on every {HELD_OUT}th training image" if tried else "C was given"
    stated = {"C": c, "chosen_on": chosen, "tried": tried, "converged": fitted.converged}
    return fitted.logits(val), stated


def _sgd(bench: Bench, tokens: str, val: Tensor) -> tuple[Tensor, dict[str, Any]]:
    labels = bench.train.labels
    assert labels is not None
    sides = [
        image_features(bench.features(bench.train, mirrored), tokens, normalise=False)
        for mirrored in (False, True)
    ]
    both = torch.stack(sides)[..., None, None]  # [mirrored, image, width, row, col]
    truth = torch.from_numpy(labels)[:, None, None]

    def batch(chosen: list[int], mirrored: bool, step: int) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(chosen)
        flips = (uniform("linear mirror", step, rows, num=1)[:, 0] < 0.5).long()
        return both[flips, rows], truth[rows]

    num = len(labels)
    size = min(DINO.batch, num)
    recipe = replace(DINO, rate=DINO.rate * size / 256)
    head = train_head(
        recipe, batch, num, both.shape[2], len(bench.train.classes),
        saved=bench.scratch("head.pt"), progress=bench.progress,
    )  # fmt: skip
    stated = {
        "scale": "cached: plain and mirrored features, no random crops",
        "epochs": recipe.epochs,
        "batch": size,
        "chosen_on": "nothing is chosen: the last step",
    }
    with torch.no_grad():
        return head(val[..., None, None]).flatten(1), stated


def logreg_seconds(bench: Bench) -> float:
    """Return the expected time of the regressions."""
    width = bench.sizes.width * (2 if bench.options["tokens"] == "both" else 1)
    num_fits = 1.0 if float(bench.options["C"]) else 1 + len(VALUES) * (1 - 1 / HELD_OUT)
    return regression_seconds(len(bench.train), width, len(bench.train.classes), num_fits)


def sgd_seconds(bench: Bench) -> float:
    """Return the expected time of training the head."""
    width = bench.sizes.width * (2 if bench.options["tokens"] == "both" else 1)
    recipe = replace(DINO, batch=min(DINO.batch, len(bench.train)))
    steps = recipe.num_steps(len(bench.train))
    return head_seconds(recipe, steps, width, len(bench.train.classes), (1, 1), (1, 1))


LINEAR = Task(
    "linear",
    "labels",
    run_linear,
    (
        Method(
            "logreg",
            place="norm",
            options={"tokens": "class", "C": 0.0},
            seconds=logreg_seconds,
            check=check_options,
        ),
        Method(
            "dino",
            place="norm",
            options={"tokens": "class"},
            mirrored=True,
            seconds=sgd_seconds,
            check=check_options,
        ),
    ),
    controls=(RANDOM_INITIALISATION, PIXEL_STATISTICS),
)
