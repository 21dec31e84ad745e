"""Define what a run learns: labels, labels and a teacher's answers, or views without labels (DINO).

An objective defines the batches, the loss and the score of an epoch. The loop, the step,
checkpoints and logs are the same for all objectives.
"""

from __future__ import annotations

from nearsight.train.objectives.all_objectives import OBJECTIVES, objective_of
from nearsight.train.objectives.objective import (
    FinalScores,
    Objective,
    Setting,
    TrainingBatch,
    Validation,
)

__all__ = [
    "OBJECTIVES",
    "FinalScores",
    "Objective",
    "Setting",
    "TrainingBatch",
    "Validation",
    "objective_of",
]
