"""evaluate.json: the scores of a model's frozen features, task by task.

The records of single images are in evaluate.npz beside it; pairwise comparisons of models use them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from nearsight.runs.records.run_record import ProvenanceRecord
from nearsight.runs.records.stored import Stored, StoredFile

RECORDS = "evaluate.npz"  # beside evaluate.json: an array for every result, by its key


class EvaluatedData(Stored):
    """The images of a result."""

    name: str
    train: str  # identity of the training images that were used
    val: str  # identity of the images that the number is computed on
    num_train: int
    num_val: int
    num_classes: int


class ResultNumber(Stored):
    """One number with its 95 % interval over images."""

    name: str  # such as "miou"
    value: float
    low: float
    high: float
    number: str  # the function that computes it from records
    key: str  # name of its records in evaluate.npz
    details: dict[str, Any] = Field(default_factory=dict)


class TaskResult(Stored):
    """The result of one method of one task at one layer, for the model or for a control."""

    task: str
    method: str
    layer: int
    place: str
    subject: str
    identity: str  # hash of the weights and the architecture
    control: str | None
    data: EvaluatedData
    settings: dict[str, Any]
    numbers: list[ResultNumber]
    seconds: float


class LayerDistances(Stored):
    """How far each layer of the model attends; present if several layers were evaluated."""

    mad: list[float]  # mean over heads, in grid diagonals, by layer
    num_images: int  # of the scored ones


class EvaluateRecord(Stored):
    """evaluate.json; ``files`` has the sha256 of the files that were written with it, by name."""

    schema_version: Literal[1]
    model: str
    identity: str
    results: list[TaskResult]
    remarks: list[str]
    distances: LayerDistances | None = None
    provenance: ProvenanceRecord
    files: dict[str, str] = Field(default_factory=dict)  # empty: written before there were hashes


EVALUATE_FILE: StoredFile[EvaluateRecord] = StoredFile(
    name="evaluate.json",
    kind=EvaluateRecord,
    repair="run nearsight evaluate {folder} again",
    absent="{folder} has no evaluate.json: run nearsight evaluate {folder} first",
)
