"""Run the cells of a study, and show their progress."""

from __future__ import annotations

from nearsight.study.run.calibration import assumptions, num_cores
from nearsight.study.run.runner import Plan, expected_seconds, plan_cells, run_study
from nearsight.study.run.training_cost import (
    GPU_TFLOPS,
    StudyCost,
    study_costs,
    training_speed,
)

__all__ = [
    "GPU_TFLOPS",
    "Plan",
    "StudyCost",
    "assumptions",
    "expected_seconds",
    "num_cores",
    "plan_cells",
    "run_study",
    "study_costs",
    "training_speed",
]
