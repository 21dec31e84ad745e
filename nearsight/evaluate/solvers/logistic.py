"""Fit multinomial logistic regression to frozen features of any number of rows.

The problem is convex, so its solution depends on no seed. The target of a row is a weight for each
class, so that a patch of two classes counts for both. As in scikit-learn, C weighs the sum of the
cross-entropies against half the squared length of the weights, and the bias is not penalised.
Features are standardised by their mean and deviation. Rows are read in chunks; if they do not fit
in memory, they are read from disk at every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nearsight.core import UserError
from nearsight.evaluate.solvers.lbfgs import Vector, minimise

CHUNK = 8192  # rows
HELD = 1 << 28  # most numbers to keep in memory, in float32: 1 GiB
TOLERANCE = 1e-5  # the fit ends when no entry of the gradient of the mean loss is larger
MOST_STEPS = 1000


@dataclass(frozen=True)
class LabelledRows:
    """Rows of features and their targets.

    Args:
        features: All features, [row, width]; may be a memory map in half precision.
        targets: The weight of each class, [row, cls]; a sparse array of scipy.
        rows: The rows to use, in ascending order.
    """

    features: np.ndarray
    targets: Any
    rows: Int[np.ndarray, " row"]

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self.targets.shape[1])

    def chunks(self) -> Iterator[tuple[Float[Tensor, "row width"], Float[Tensor, "row cls"]]]:
        """Yield features and targets of some rows at a time, in float32."""
        for start in range(0, len(self.rows), CHUNK):
            rows = self.rows[start : start + CHUNK]
            targets = self.targets[rows].toarray().astype(np.float32)
            features = np.asarray(self.features[rows], np.float32)
            yield torch.from_numpy(features), torch.from_numpy(targets)


@dataclass(frozen=True)
class FeatureScale:
    """Mean and deviation of every feature; a constant feature has deviation 1."""

    mean: Float[Tensor, " width"]
    deviation: Float[Tensor, " width"]

    def __call__(self, features: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
        """Return features with mean 0 and deviation 1."""
        return (features - self.mean) / self.deviation


def feature_scale(features: np.ndarray, rows: Int[np.ndarray, " row"]) -> FeatureScale:
    """Return the scale of some rows of features, in two passes over chunks."""
    parts = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
    sums = sum(np.asarray(features[part], np.float64).sum(0) for part in parts)
    mean = sums / len(rows)
    squares = sum(((np.asarray(features[part], np.float64) - mean) ** 2).sum(0) for part in parts)
    deviation = np.sqrt(squares / len(rows))
    deviation[deviation == 0] = 1
    return FeatureScale(torch.from_numpy(mean).float(), torch.from_numpy(deviation).float())


@dataclass(frozen=True)
class LogisticModel:
    """A fitted regression."""

    scale: FeatureScale
    weight: Float[np.ndarray, "cls width"]
    bias: Float[np.ndarray, " cls"]
    steps: int
    converged: bool

    def logits(self, features: np.ndarray | Tensor) -> Float[Tensor, "row cls"]:
        """Return the logits of rows of features."""
        rows = torch.as_tensor(np.asarray(features, np.float32))
        weight = torch.from_numpy(self.weight).float()
        return self.scale(rows) @ weight.T + torch.from_numpy(self.bias).float()


class LogisticProblem:
    """A regression on some examples, which can be solved for several values of C.

    Args:
        examples: The rows and their targets.
        scale: The scale of the features. By default that of the examples.

    Raises:
        UserError: If no example has a label.
    """

    def __init__(self, examples: LabelledRows, scale: FeatureScale | None = None) -> None:
        self.examples = examples
        self.scale = scale or feature_scale(examples.features, examples.rows)
        self.width = int(examples.features.shape[1])
        numbers = len(examples.rows) * (self.width + examples.num_classes)
        self.held = list(self._chunks()) if numbers <= HELD else None
        self.total = sum(
            float(targets.double().sum()) for _, targets in self.held or self._chunks()
        )
        if not self.total > 0:
            raise UserError(
                "no training patch has a label, so there is nothing to fit; check the masks, or "
                "use more images with --num-train"
            )

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self.scale(rows), targets) for rows, targets in self.examples.chunks())

    def fit(
        self,
        c: float,
        start: LogisticModel | None = None,
        tolerance: float = TOLERANCE,
        most: int = MOST_STEPS,
    ) -> LogisticModel:
        """Fit the regression with one value of C.

        Args:
            c: The weight of the cross-entropies against the penalty.
            start: Start from this solution. It saves time and does not change the result.
            tolerance: Stop when no entry of the gradient is larger.
            most: The largest number of steps.
        """
        num_classes = self.examples.num_classes
        shape = (num_classes, self.width + 1)
        first = np.zeros(shape)
        if start is not None:
            first[:] = np.column_stack([start.weight, start.bias])

        def loss(vector: Vector) -> tuple[float, Vector]:
            return self.loss(vector.reshape(shape), c)

        found = minimise(loss, first.ravel(), tolerance=tolerance, most=most)
        solved = found.place.reshape(shape)
        return LogisticModel(
            self.scale, solved[:, :-1].copy(), solved[:, -1].copy(), found.steps, found.converged
        )

    def loss(self, solved: Float[np.ndarray, "cls number"], c: float) -> tuple[float, Vector]:
        """Return the mean loss with its penalty, and its gradient, summed in float64."""
        weight = torch.from_numpy(solved[:, :-1].astype(np.float32)).T.contiguous()
        bias = torch.from_numpy(solved[:, -1].astype(np.float32))
        value = 0.0
        slope = torch.zeros(solved.shape, dtype=torch.float64)
        for rows, targets in self.held or self._chunks():
            logs = torch.addmm(bias, rows, weight).log_softmax(-1)
            value -= float((targets * logs).sum(dtype=torch.float64))
            error = logs.exp_().mul_(targets.sum(-1, keepdim=True)).sub_(targets)
            slope[:, :-1] += (error.T @ rows).double()
            slope[:, -1] += error.sum(0, dtype=torch.float64)
        gradient = slope.numpy() / self.total
        gradient[:, :-1] += solved[:, :-1] / (c * self.total)
        penalty = float((solved[:, :-1] ** 2).sum()) / (2 * c * self.total)
        return value / self.total + penalty, gradient.ravel()
