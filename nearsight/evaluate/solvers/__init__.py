"""Solvers on plain tensors: exact nearest neighbours, logistic regression, trained heads."""

from __future__ import annotations

from nearsight.evaluate.solvers.expected_time import (
    head_seconds,
    regression_seconds,
    search_seconds,
)
from nearsight.evaluate.solvers.logistic import (
    LabelledRows,
    LogisticModel,
    LogisticProblem,
    feature_scale,
)
from nearsight.evaluate.solvers.neighbours import Nearness, nearest
from nearsight.evaluate.solvers.trained_head import (
    Batch,
    HeadRecipe,
    batch_norm_head,
    constant,
    cosine,
    dropout_head,
    mlp_head,
    one_cycle,
    plain_head,
    small_head,
    train_head,
    warm_cosine,
    warm_linear,
)

__all__ = [
    "Batch",
    "HeadRecipe",
    "LabelledRows",
    "LogisticModel",
    "LogisticProblem",
    "Nearness",
    "batch_norm_head",
    "constant",
    "cosine",
    "dropout_head",
    "feature_scale",
    "head_seconds",
    "mlp_head",
    "nearest",
    "one_cycle",
    "plain_head",
    "regression_seconds",
    "search_seconds",
    "small_head",
    "train_head",
    "warm_cosine",
    "warm_linear",
]
