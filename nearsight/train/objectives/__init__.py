"""What a run learns: labels, a teacher's answers besides them, or DINO's views without labels.

An objective gives the batches, the loss and the score of an epoch. The loop, the step, checkpoints
and logs around it are the same for all.
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
