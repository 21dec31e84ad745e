"""localise.json: the locality chosen for a model on training images, and how much it gains."""

from __future__ import annotations

from typing import Literal

from nearsight.runs.records.entries import IntervalRecord
from nearsight.runs.records.run_record import ProvenanceRecord
from nearsight.runs.records.stored import Stored, StoredFile

Role = Literal["plain", "candidate", "control", "chosen"]


class TriedLocality(Stored):
    """A model that was scored: the plain one, or one made local."""

    name: str  # for people
    role: Role
    locality: str | None  # in the form that --localise takes; None: the plain model
    layer: int  # the layer whose features were used, counted from 1
    score: IntervalRecord
    gain: IntervalRecord | None  # over the plain model's last layer, paired over images
    seconds: float


class LayerScore(Stored):
    """A layer of the plain model: how good its features are, and how local its attention."""

    layer: int
    score: IntervalRecord
    mad: float  # mean over heads, in grid diagonals


class ScoredImages(Stored):
    """The images on which scores are computed."""

    data: str
    split: str
    num_train: int
    num_scored: int


class ClassAccuracy(Stored):
    """Top-1 accuracy of the model's own classifier."""

    folder: str
    num_images: int
    plain: IntervalRecord
    local: IntervalRecord
    gain: IntervalRecord  # paired over images


class LocaliseRecord(Stored):
    """localise.json."""

    schema_version: Literal[1]
    model: str
    identity: str
    task: str
    method: str
    number: str
    searched: ScoredImages
    tried: list[TriedLocality]
    chosen: str
    layers: list[LayerScore]
    scored: ScoredImages | None  # None: the search only
    results: list[TriedLocality]
    accuracy: ClassAccuracy | None
    remarks: list[str]
    provenance: ProvenanceRecord


LOCALISE_FILE: StoredFile[LocaliseRecord] = StoredFile(
    name="localise.json",
    kind=LocaliseRecord,
    repair="run nearsight localise again",
    absent="{folder} has no localise.json: run nearsight localise first",
)
