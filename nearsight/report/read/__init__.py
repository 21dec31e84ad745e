"""What a report knows: runs read from their files and grouped into conditions."""

from __future__ import annotations

from nearsight.report.read.conditions import Condition, Family, paired_difference
from nearsight.report.read.efficiency import HEADER, SCORES, Series, efficiency_rows, sample_series
from nearsight.report.read.emergence import THRESHOLDS, head_epochs, thresholds
from nearsight.report.read.evidence import Evidence
from nearsight.report.read.grouping import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    flat_settings,
    read_families,
)
from nearsight.report.read.learned import Distribution, Gaussians, looks_of

__all__ = [
    "BLUE",
    "GREEN",
    "HEADER",
    "ORANGE",
    "PURPLE",
    "SCORES",
    "SKY",
    "THRESHOLDS",
    "VERMILION",
    "Condition",
    "Distribution",
    "Evidence",
    "Family",
    "Gaussians",
    "Series",
    "efficiency_rows",
    "flat_settings",
    "head_epochs",
    "looks_of",
    "paired_difference",
    "read_families",
    "sample_series",
    "thresholds",
]
