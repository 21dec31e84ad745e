"""Compute the results of a study: outcomes of cells, and effects of factors with intervals."""

from __future__ import annotations

from nearsight.study.analyse.effects import (
    Effects,
    effects_by_epoch,
    num_simultaneous,
    simultaneous_estimate,
    study_effects,
)
from nearsight.study.analyse.factorials import Effect, Factorial, factorial
from nearsight.study.analyse.image_minima import MINIMA, read_minima, write_minima
from nearsight.study.analyse.loaded import (
    FinishedCell,
    LoadedCell,
    LoadedStudy,
    load_study,
)
from nearsight.study.analyse.matched import Course
from nearsight.study.analyse.outcome import Factors, Outcome, condition_text, factorial_groups
from nearsight.study.analyse.primary import PrimaryResult, primary_result
from nearsight.study.analyse.results import EQUAL_STEPS, GATE_SHUT, courses, outcomes
from nearsight.study.analyse.seed_losses import SeedLoss, losses_over_seeds
from nearsight.study.analyse.shares import SeedShare, seed_shares
from nearsight.study.analyse.summary import write_summary
from nearsight.study.analyse.trends import GridTrends, grid_trends

__all__ = [
    "EQUAL_STEPS",
    "GATE_SHUT",
    "MINIMA",
    "Course",
    "Effect",
    "Effects",
    "Factorial",
    "Factors",
    "FinishedCell",
    "GridTrends",
    "LoadedCell",
    "LoadedStudy",
    "Outcome",
    "PrimaryResult",
    "SeedLoss",
    "SeedShare",
    "condition_text",
    "courses",
    "effects_by_epoch",
    "factorial",
    "factorial_groups",
    "grid_trends",
    "load_study",
    "losses_over_seeds",
    "num_simultaneous",
    "outcomes",
    "primary_result",
    "read_minima",
    "seed_shares",
    "simultaneous_estimate",
    "study_effects",
    "write_minima",
    "write_summary",
]
