"""Solvers on plain tensors: exact nearest neighbours, logistic regression, trained heads."""

from __future__ import annotations

from nearsight.evaluate.solvers.logistic import (
    Examples,
    LogisticModel,
    LogisticProblem,
    feature_scale,
)
from nearsight.evaluate.solvers.neighbours import Nearness, nearest

__all__ = [
    "Examples",
    "LogisticModel",
    "LogisticProblem",
    "Nearness",
    "feature_scale",
    "nearest",
]
