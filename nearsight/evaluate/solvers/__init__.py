"""Solvers on plain tensors: exact nearest neighbours, logistic regression, trained heads."""

from __future__ import annotations

from nearsight.evaluate.solvers.heads import (
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
from nearsight.evaluate.solvers.logistic import (
    Examples,
    LogisticModel,
    LogisticProblem,
    feature_scale,
)
from nearsight.evaluate.solvers.neighbours import Nearness, nearest

__all__ = [
    "Batch",
    "Examples",
    "HeadRecipe",
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
