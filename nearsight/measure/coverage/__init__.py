"""Try every model file of timm, torchvision and Hugging Face, and list what can be measured."""

from __future__ import annotations

from nearsight.measure.coverage.attempt import ModelRow, try_model
from nearsight.measure.coverage.choices import covered_models
from nearsight.measure.coverage.coverage_page import coverage_table, write_page
from nearsight.measure.coverage.survey import SAMPLE, run_coverage

__all__ = [
    "SAMPLE",
    "ModelRow",
    "coverage_table",
    "covered_models",
    "run_coverage",
    "try_model",
    "write_page",
]
