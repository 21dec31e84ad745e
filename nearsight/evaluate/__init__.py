"""What a trained model is good for: its accuracy, also when heads are made to look elsewhere."""

from __future__ import annotations

from nearsight.evaluate.accuracy import BATCH, Scores, model_scores
from nearsight.evaluate.causal import CAUSAL_STAGE, causal_run

__all__ = ["BATCH", "CAUSAL_STAGE", "Scores", "causal_run", "model_scores"]
