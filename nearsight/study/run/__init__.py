"""Run the cells of a study to the end, and watch them."""

from __future__ import annotations

from nearsight.study.run.calibration import assumptions, num_cores
from nearsight.study.run.runner import Plan, expected_seconds, planned, run_study

__all__ = ["Plan", "assumptions", "expected_seconds", "num_cores", "planned", "run_study"]
