"""Read the files of runs and group the runs into conditions and families."""

from __future__ import annotations

from nearsight.report.read.conditions import ConditionRuns, Family, paired_difference
from nearsight.report.read.efficiency import HEADER, SCORES, Series, efficiency_rows, sample_series
from nearsight.report.read.emergence import THRESHOLDS, head_epochs, thresholds
from nearsight.report.read.evaluations import (
    EvaluatedFolder,
    PairedResult,
    data_label,
    last_layers,
    model_inks,
    paired_results,
    read_evaluations,
    result_estimate,
)
from nearsight.report.read.evidence import Evidence, evidence_of
from nearsight.report.read.grouping import flat_settings, grouped_families, read_families
from nearsight.report.read.logged_looks import Look, looks_of
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
    ink_name,
    page_colours,
)
from nearsight.report.read.part_records import (
    Gates,
    Gaussians,
    Learned,
    ReadDistribution,
    learned_in_measurement,
)
from nearsight.report.read.published_scores import PublishedScore, published_beside

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
    "Gates",
    "Gaussians",
    "Learned",
    "Look",
    "PairedResult",
    "PublishedScore",
    "ReadDistribution",
    "Series",
    "data_label",
    "efficiency_rows",
    "evidence_of",
    "flat_settings",
    "grouped_families",
    "head_epochs",
    "ink_name",
    "last_layers",
    "learned_in_measurement",
    "looks_of",
    "model_inks",
    "page_colours",
    "paired_difference",
    "paired_results",
    "published_beside",
    "read_evaluations",
    "read_families",
    "result_estimate",
    "sample_series",
    "thresholds",
]
