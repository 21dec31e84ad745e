"""The results of a study: outcomes of cells, effects of factors, and their intervals."""

from __future__ import annotations

from nearsight.study.analyse.effects import Effects, effects_by_epoch, study_effects
from nearsight.study.analyse.factorials import Effect, Factorial, factorial
from nearsight.study.analyse.loaded import LoadedStudy, load_study
from nearsight.study.analyse.matched import Course
from nearsight.study.analyse.outcome import Outcome, factorial_groups
from nearsight.study.analyse.results import courses, outcomes
from nearsight.study.analyse.summary import write_summary

__all__ = [
    "Course",
    "Effect",
    "Effects",
    "Factorial",
    "LoadedStudy",
    "Outcome",
    "courses",
    "effects_by_epoch",
    "factorial",
    "factorial_groups",
    "load_study",
    "outcomes",
    "study_effects",
    "write_summary",
]
