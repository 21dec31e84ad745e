"""Evaluate what a trained model is good for.

``accuracy`` tests its answers, ``causal`` how much accuracy is lost when heads are made to attend
elsewhere, and ``tasks`` how useful its frozen features are for segmentation and classification.
"""

from __future__ import annotations

from nearsight.evaluate.accuracy import BATCH, Scores, model_scores
from nearsight.evaluate.causal import CAUSAL_STAGE, causal_run
from nearsight.evaluate.evaluation import (
    EVALUATE_STAGE,
    evaluate_model,
    evaluate_run,
    evaluate_targets,
)
from nearsight.evaluate.locality_candidates import SearchSettings
from nearsight.evaluate.locality_search import search_locality
from nearsight.evaluate.result import Evaluation, read_evaluation
from nearsight.evaluate.task_outcome import TaskOutcome
from nearsight.evaluate.tasks import knn_hits

__all__ = [
    "BATCH",
    "CAUSAL_STAGE",
    "EVALUATE_STAGE",
    "Evaluation",
    "Scores",
    "SearchSettings",
    "TaskOutcome",
    "causal_run",
    "evaluate_model",
    "evaluate_run",
    "evaluate_targets",
    "knn_hits",
    "model_scores",
    "read_evaluation",
    "search_locality",
]
