"""The records of a study folder: study, cell, failed, summary and claims (.json)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from nearsight.runs.records.run_record import ProvenanceRecord
from nearsight.runs.records.stored import Stored, StoredFile

CELL_VERSION = 2
Level = bool | int | float | str  # of a factor


class PrimaryRecord(Stored):
    """The one comparison for which a study was made."""

    value: str
    high: dict[str, Level]
    low: dict[str, Level]


class StudyRecord(Stored):
    """study.json: the recipe's name and question, and the keys of its cells in order."""

    schema_version: Literal[1]
    study: str
    question: str = ""
    scale: Literal["laptop", "paper"] | None = None  # None: the recipe has one scale
    primary: PrimaryRecord | None = None  # None: none was named before the study ran
    virtual_patience: int | None = None  # epochs; runs are also read as if stopped early
    cells: list[str]


class SoftwareRecord(Stored):
    """The software that can change the numbers of a cell."""

    torch: str
    timm: str | None
    kernel: bool | None
    numbers: int | None


class CellRecord(Stored):
    """cell.json: everything that determines the numbers of a cell, and its factors.

    Version 1 has no key and no stages. Instead it has the version of torch and what was measured.
    """

    schema_version: Literal[1, 2]
    key: str | None = None
    key_format: int | None = None
    factors: dict[str, Level]
    protocol: dict[str, Any]
    seed: int
    data_hash: str
    device: str
    software: SoftwareRecord | None = None
    stages: dict[str, dict[str, Any]] | None = None
    torch: str | None = None
    measured_images: int | None = None
    metrics: list[str] | None = None
    processes: int = 1
    weights: dict[str, str] = Field(default_factory=dict)
    accepted: list[str] = Field(default_factory=list)  # differences of a cell that was reused

    @model_validator(mode="after")
    def _says_its_software_and_stages(self) -> CellRecord:
        old = self.torch is not None and self.metrics is not None
        if not old and (self.software is None or self.stages is None):
            raise ValueError(
                "it has neither software and stages nor, as in version 1, torch and metrics"
            )
        return self


class FailureRecord(Stored):
    """failed.json: why a cell failed."""

    schema_version: Literal[1]
    reason: str
    when: str


class EstimateRecord(Stored):
    """A number with its 95 % interval, and how many images or seeds it is estimated from."""

    value: float
    low: float
    high: float
    n: int
    over: str


class SummaryDataRecord(Stored):
    """The data of a cell."""

    name: str
    hash: str
    num_train: int


class SummaryCellRecord(Stored):
    """A cell: its numbers and settings if it is finished, or why it failed."""

    key: str
    factors: dict[str, Level]
    seed: int
    failed: str | None = None
    values: dict[str, float] | None = None
    settings: dict[str, Level] | None = None
    data: SummaryDataRecord | None = None
    provenance: ProvenanceRecord | None = None


class PrimaryResultRecord(Stored):
    """The primary contrast at the end of training, and at the last epoch that all runs reached."""

    contrast: PrimaryRecord
    text: str
    per_seed: dict[str, float]
    estimate: EstimateRecord | None
    p: float | None
    num_pairs: int
    at_matched_steps: EstimateRecord | None = None
    epoch: int | None = None


class ShareRecord(Stored):
    """The share of a condition's seeds that have a head of one kind, with the exact interval."""

    condition: str
    kind: Literal["identity", "local"]
    count: int
    n: int
    low: float
    high: float


class SeedLossRecord(Stored):
    """The accuracy that a condition loses when heads are made to attend elsewhere, over seeds."""

    condition: str
    heads: str
    change: str
    per_seed: dict[str, float]
    estimate: EstimateRecord | None


class ConditionRecord(Stored):
    """A number of one condition: its mean and interval over seeds."""

    value: str
    condition: str
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    seeds: list[int]


class EffectRecord(Stored):
    """An effect of one or several factors, with its own interval and the simultaneous one."""

    factors: list[str]
    per_seed: dict[str, float]
    estimate: EstimateRecord | None
    simultaneous: EstimateRecord | None = None
    p: float | None
    holm_p: float | None


class FactorialRecord(Stored):
    """All effects on one number; if runs are matched, with the epoch, loss or virtual patience."""

    value: str
    at: dict[str, Level]
    seeds: list[int]
    notes: list[str]
    effects: list[EffectRecord]
    epoch: int | None = None
    loss: float | None = None
    virtual_patience: int | None = None


class ImageEffectRecord(Stored):
    """An effect on a number that runs record for every image, with three intervals."""

    at: dict[str, Level]
    factors: list[str]
    over_images: EstimateRecord
    over_seeds: EstimateRecord | None
    over_both: EstimateRecord | None


class DifferenceRecord(Stored):
    """The difference between a condition and the first one, paired by seed."""

    value: str
    condition: str
    first: str = Field(alias="from")
    mean: float
    low: float
    high: float
    simultaneous_low: float | None = None
    simultaneous_high: float | None = None
    seeds: list[int]


class SummaryRecord(Stored):
    """summary.json: the results of a study, readable without its runs."""

    schema_version: Literal[1]
    study: str
    cells: list[SummaryCellRecord]
    conditions: list[ConditionRecord]
    primary: PrimaryResultRecord | None = None
    num_simultaneous: int | None = None  # intervals that are simultaneous with each other
    shares: list[ShareRecord] = Field(default_factory=list)
    accuracy_lost: list[SeedLossRecord] = Field(default_factory=list)
    effects: list[FactorialRecord] = Field(default_factory=list)
    effects_at_matched_steps: list[FactorialRecord] = Field(default_factory=list)
    effects_at_matched_loss: list[FactorialRecord] = Field(default_factory=list)
    effects_at_virtual_stop: list[FactorialRecord] = Field(default_factory=list)
    effects_on_accuracy_over_seeds_and_images: list[ImageEffectRecord] = Field(default_factory=list)
    effects_on_min_mad_over_seeds_and_images: list[ImageEffectRecord] = Field(default_factory=list)
    differences: list[DifferenceRecord] = Field(default_factory=list)


class ClaimPartRecord(Stored):
    """One number of a claim; it has no interval if there are fewer than two seeds."""

    label: str
    claimed: str
    n: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None = None
    unit: str = ""  # "points" and "percent": the numbers are shares
    seen: str | None


class VerdictRecord(Stored):
    """A claim of a paper, and what the study says about it."""

    id: str
    source: str
    sentence: str
    direction: str
    margin: float | None
    paper: str
    claimed_scale: str
    scale: str
    settings: str = ""
    condition: str = ""
    claimed: str = ""
    seen: str = ""
    n: int | None = None
    assumed: list[str] = Field(default_factory=list)
    decision: str
    reason: str
    parts: list[ClaimPartRecord]


class ClaimsRecord(Stored):
    """claims.json."""

    schema_version: Literal[1]
    verdicts: list[VerdictRecord]


STUDY_FILE: StoredFile[StudyRecord] = StoredFile(
    name="study.json",
    kind=StudyRecord,
    repair="delete it and run nearsight study run --out {folder} again, which writes it",
    absent="{folder} has no study.json; give a folder that `nearsight study run` wrote",
)
CELL_FILE: StoredFile[CellRecord] = StoredFile(
    name="cell.json",
    kind=CellRecord,
    repair="delete it and run nearsight study run again, which writes it",
    versions=(1, CELL_VERSION),
)
FAILED_FILE: StoredFile[FailureRecord] = StoredFile(
    name="failed.json", kind=FailureRecord, repair="delete it and run the study again"
)
SUMMARY_FILE: StoredFile[SummaryRecord] = StoredFile(
    name="summary.json",
    kind=SummaryRecord,
    repair="delete it and run nearsight study report {folder} again, which writes it",
)
CLAIMS_FILE: StoredFile[ClaimsRecord] = StoredFile(
    name="claims.json",
    kind=ClaimsRecord,
    repair="delete it and run nearsight study claims {folder} again, which writes it",
)
