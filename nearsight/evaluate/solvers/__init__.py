"""Solvers on plain tensors: exact nearest neighbours, logistic regression, trained heads."""

from __future__ import annotations

from nearsight.evaluate.solvers.logistic import Examples, LogisticModel, LogisticProblem
from nearsight.evaluate.solvers.neighbours import nearest

__all__ = ["Examples", "LogisticModel", "LogisticProblem", "nearest"]
