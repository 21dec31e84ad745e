"""What a report knows: runs read from their files and grouped into conditions."""

from __future__ import annotations

from nearsight.report.read.conditions import ConditionRuns, Family, paired_difference
from nearsight.report.read.efficiency import HEADER, SCORES, Series, efficiency_rows, sample_series
from nearsight.report.read.emergence import THRESHOLDS, head_epochs, thresholds
from nearsight.report.read.evaluations import (
    EvaluatedFolder,
    PairedResult,
    paired_results,
    read_evaluations,
    result_estimate,
)
from nearsight.report.read.evidence import Evidence, evidence_of
from nearsight.report.read.grouping import flat_settings, grouped_families, read_families
from nearsight.report.read.learned import (
    Gaussians,
    Look,
    ReadDistribution,
    gates_of,
    gaussians_of,
    looks_of,
)
from nearsight.report.read.palette import (
    BLUE,
    DARK,
    GREEN,
    MUTED,
    ORANGE,
    PURPLE,
    RULE,
    SKY,
    TEXT,
    VERMILION,
    page_colours,
)

__all__ = [
    "BLUE",
    "DARK",
    "GREEN",
    "HEADER",
    "MUTED",
    "ORANGE",
    "PURPLE",
    "RULE",
    "SCORES",
    "SKY",
    "TEXT",
    "THRESHOLDS",
    "VERMILION",
    "ConditionRuns",
    "EvaluatedFolder",
    "Evidence",
    "Family",
    "Gaussians",
    "Look",
    "PairedResult",
    "ReadDistribution",
    "Series",
    "efficiency_rows",
    "evidence_of",
    "flat_settings",
    "gates_of",
    "gaussians_of",
    "grouped_families",
    "head_epochs",
    "looks_of",
    "page_colours",
    "paired_difference",
    "paired_results",
    "read_evaluations",
    "read_families",
    "result_estimate",
    "sample_series",
    "thresholds",
]
