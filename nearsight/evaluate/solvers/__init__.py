"""Solvers on plain tensors: exact nearest neighbours, logistic regression, trained heads."""

from __future__ import annotations

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
    dropout_head,
    mlp_head,
    one_cycle,
    plain_head,
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
    "dropout_head",
    "feature_scale",
    "mlp_head",
    "nearest",
    "one_cycle",
    "plain_head",
    "train_head",
    "warm_cosine",
    "warm_linear",
]
