"""Segment by logistic regression on patches, which is convex and depends on no seed.

Every labelled pixel of a training patch is an example with the features of its patch, so that a
patch of two classes counts for both. C is chosen by mIoU on every tenth training image, and the
regression is then fitted to all training images.

``capi-logreg`` follows Darcet et al. (2025): the label of a patch is that of most of its pixels, C
is one of eight values from 1e-6 to 1e5, and images and masks are squashed to the model's image
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array
from torch import Tensor

from nearsight.core import UserError
from nearsight.evaluate.features import Features, Split
from nearsight.evaluate.solvers import (
    LabelledRows,
    LogisticModel,
    LogisticProblem,
    regression_seconds,
)
from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
    Maps,
    score_images,
    scoring_seconds,
    segmentation_findings,
)
from nearsight.evaluate.tasks.segmentation.truth import patch_labels
from nearsight.evaluate.tasks.task import Bench, Method, TaskNumber
from nearsight.stats import miou

OPTIONS = {"C": 0.0}  # 0: choose C on held-out training images
VALUES = tuple(10.0**power for power in range(-4, 1))
CAPI_VALUES = tuple(float(value) for value in np.logspace(-6, 5, 8))
HELD_OUT = 10  # C is chosen on one in ten training images


def check_options(options: Mapping[str, Any]) -> None:
    """Check the option ``C``.

    Raises:
        UserError: If it is negative.
    """
    if not options["C"] >= 0:
        raise UserError(
            f"C is {options['C']}, but it must be positive, or 0 to choose it on training images"
        )


@dataclass(frozen=True)
class Choice:
    """A value of C, and the scores by which it was chosen."""

    c: float
    scores: dict[str, float]  # mIoU of the held-out training images by C; empty: C was given


def run_logreg(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of logistic regression on the class shares of patches."""
    labels = patch_labels(bench.train, bench.features(bench.train).grid, len(bench.train.classes))
    targets = csr_array(labels.shares.multiply(labels.known[:, None]))
    yield from _run(bench, targets, labels.labelled, VALUES, None)


def run_capi_logreg(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers of logistic regression on majority labels, as CAPI does."""
    num_classes = len(bench.train.classes)
    labels = patch_labels(bench.train, bench.features(bench.train).grid, num_classes)
    rows = labels.labelled
    ones = np.ones(len(rows), np.float32)
    targets = csr_array(
        (ones, (rows, labels.majority()[rows])), shape=(len(labels.known), num_classes)
    )
    yield from _run(bench, targets, rows, CAPI_VALUES, bench.subject.size)


def _run(
    bench: Bench,
    targets: csr_array,
    rows: Int[np.ndarray, " row"],
    values: Sequence[float],
    label_size: tuple[int, int] | None,
) -> Iterator[TaskNumber]:
    features = bench.features(bench.train)
    flat = features.patches.reshape(-1, features.width)
    given = float(bench.options["C"])
    choice, start = Choice(given, {}), None
    if not given:
        choice, start = choose_c(bench, flat, targets, rows, values, label_size)
    problem = LogisticProblem(LabelledRows(flat, targets, rows))
    fitted = problem.fit(choice.c, start)
    val = bench.features(bench.val)
    num_classes = len(bench.val.classes)
    matrices = score_images(
        bench.val, logit_maps(fitted, val), num_classes, label_size=label_size,
        progress=bench.progress,
    )  # fmt: skip
    settings = {
        **bench.settings(),
        "C": choice.c,
        "label_size": "of each mask" if label_size is None else list(label_size),
        "void": "neither fitted nor scored",
        "chosen_on": "C was given" if given else f"C on every {HELD_OUT}th training image",
        "tried": choice.scores,
        "steps": fitted.steps,
        "converged": fitted.converged,
        "standardised": "by mean and deviation of the training patches",
    }
    yield from segmentation_findings(matrices, bench.val.classes, settings)


def logreg_seconds(bench: Bench) -> float:
    """Return the expected time of the regressions and of scoring their predictions."""
    values = CAPI_VALUES if bench.method == "capi-logreg" else VALUES
    num_choices = 0 if float(bench.options["C"]) else len(values)
    num_rows = len(bench.train) * bench.sizes.num_patches
    num_fits = 1 + num_choices * (1 - 1 / HELD_OUT)
    fits = regression_seconds(num_rows, bench.sizes.width, len(bench.train.classes), num_fits)
    scorings = 1 + num_choices * len(bench.train) / HELD_OUT / len(bench.val)
    return fits + scorings * scoring_seconds(bench)


class _Chosen(NamedTuple):
    choice: Choice
    model: LogisticModel


def choose_c(
    bench: Bench,
    flat: np.ndarray,
    targets: csr_array,
    rows: Int[np.ndarray, " row"],
    values: Sequence[float],
    label_size: tuple[int, int] | None,
) -> _Chosen:
    """Choose C by mIoU on every tenth training image, with the regression fitted to the others.

    Values are tried from the smallest to the largest, each from the solution of the one before.

    Raises:
        UserError: If there are fewer than ten training images.
    """
    features, train = bench.features(bench.train), bench.train
    if len(train) < HELD_OUT:
        raise UserError(
            f"C is chosen on every {HELD_OUT}th training image, but there are only {len(train)}; "
            "use more with --num-train, or set C with --set C=1"
        )
    held_out = np.arange(HELD_OUT - 1, len(train), HELD_OUT)
    per_image = features.grid.rows * features.grid.cols
    fitted_rows = rows[~np.isin(rows // per_image, held_out)]
    problem = LogisticProblem(LabelledRows(flat, targets, fitted_rows))
    split: Split = train.part(held_out, "held out")
    chosen = Features(features.patches[held_out], None, features.grid, features.key)
    found: dict[float, tuple[float, LogisticModel]] = {}
    model: LogisticModel | None = None
    for step, c in enumerate(sorted(values), 1):
        model = problem.fit(c, model)
        matrices = score_images(
            split, logit_maps(model, chosen), len(train.classes), label_size=label_size
        )
        found[c] = float(miou(matrices.whole, np.ones(len(split)))), model
        if bench.progress:
            bench.progress(step, len(values))
    best = max(found, key=lambda c: (found[c][0], -c))
    scores = {f"{c:.3g}": round(value, 5) for c, (value, _) in found.items()}
    return _Chosen(Choice(best, scores), found[best][1])


def logit_maps(model: LogisticModel, features: Features) -> Maps:
    """Return the function that gives the logits of an image."""

    def logits(number: int) -> Tensor:
        found = model.logits(features.patches[number])  # [patch, cls]
        return found.T.unflatten(1, (features.grid.rows, features.grid.cols)).contiguous()

    return logits


LOGREG = Method("logreg", options=OPTIONS, seconds=logreg_seconds, check=check_options)
CAPI_LOGREG = replace(LOGREG, name="capi-logreg", place="norm")
