"""run.json: a run that was trained here, or a model that was only measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nearsight.protocol import spoken_name
from nearsight.runs.records.stored import Stored, StoredFile

FINISHED = "finished"
# The settings that reports and studies read from the protocol as it is stored, and their types.
READ_SETTINGS = {"name": str, "epochs": int, "model": dict, "data": dict, "optimizer": dict}


class StretchRecord(Stored):
    """A part of a run that one process trained, and where that process came from."""

    command: str = "unknown"
    commit: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    hardware: dict[str, Any] = Field(default_factory=dict)
    started: str = "unknown"
    from_epoch: int | None = None  # the epoch and step at which it continued
    from_step: int | None = None


class ProvenanceRecord(StretchRecord):
    """Where a file came from; a run also has the stretches that continued it."""

    stretches: list[StretchRecord] = Field(default_factory=list)  # that ran under other conditions


ORIGIN_TEXTS = {  # by what run.json stores
    "official": "official files",
    "not the official bytes": "files that differ from the official archive",
    "registered": "registered folder",
    "folder": "folder of images",
}


def origin_text(origin: str) -> str:
    """Say in words where the images of a data set come from.

    >>> origin_text("not the official bytes"), origin_text("generated")
    ('files that differ from the official archive', 'generated')
    """
    return ORIGIN_TEXTS.get(origin, origin)


class TrainedDataRecord(Stored):
    """The data set that a run was trained, validated and tested on."""

    name: str
    hash: str
    origin: str
    identity: str | None = None  # hash of the files of a registered set
    fraction: float = 1.0  # share of the training images; older runs used all
    num_train: int
    num_validation: int
    num_test: int
    num_classes: int
    classes: list[str]
    image_size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class TrainedModelRecord(Stored):
    """The model of a run."""

    name: str
    num_classes: int
    num_parameters: int
    grid: tuple[int, int] | None = None
    num_prefix: int = 0
    image_size: tuple[int, int]
    weights_hash: str | None = None


class TeacherRecord(Stored):
    """The model that taught a distilled student."""

    name: str
    weights: str
    weights_hash: str
    num_parameters: int
    image_size: tuple[int, int]


class ResultRecord(Stored):
    """The result of a finished run."""

    best_epoch: int
    num_epochs: int
    steps: int
    images_seen: int
    stopped_early: bool
    validation_accuracy: float | None = None  # None if a run learned without labels
    test_accuracy: float | None = None
    test_top5_accuracy: float | None = None  # older runs did not record it
    test_loss: float | None = None
    validation_knn_accuracy: float | None = None  # of k-NN on frozen features, with DINO
    test_knn_accuracy: float | None = None
    num_test: int
    seconds: float

    @property
    def main_accuracy(self) -> float | None:
        """The accuracy on the test images: the model's own, or that of k-NN on its features."""
        return self.test_knn_accuracy if self.test_accuracy is None else self.test_accuracy


class TrainedRun(Stored):
    """run.json of a run: what was trained, on what, with which settings, and how it ended.

    ``protocol`` stays as it was written; ``nearsight.protocol.protocol_from`` turns it into
    settings.
    """

    schema_version: Literal[1]
    nearsight: str | None = None
    protocol: dict[str, Any]
    assumed: list[str] = Field(default_factory=list)
    seed: int
    data: TrainedDataRecord
    model: TrainedModelRecord
    teacher: TeacherRecord | None = None
    provenance: ProvenanceRecord = ProvenanceRecord()
    status: str
    weights_sha256: str | None = None  # of weights.safetensors, once the run is finished
    result: ResultRecord | None = None

    @field_validator("protocol")
    @classmethod
    def _has_what_reports_read(cls, protocol: dict[str, Any]) -> dict[str, Any]:
        for name, kind in READ_SETTINGS.items():
            if not isinstance(protocol.get(name), kind):
                raise ValueError(f"its setting {name} is missing or of another type")
        return protocol

    @model_validator(mode="after")
    def _has_ended_with_a_result(self) -> TrainedRun:
        if self.is_finished and self.result is None:
            raise ValueError("its status is finished, but it has no result")
        return self

    @property
    def is_finished(self) -> bool:
        """Return whether the run was trained to the end."""
        return self.status == FINISHED

    @property
    def outcome(self) -> ResultRecord:
        """The result of a finished run."""
        assert self.result is not None, "asked for the result of a run that has not finished"
        return self.result

    @property
    def name(self) -> str:
        """The name in tables: protocol, model and seed."""
        return f"{spoken_name(self.protocol['name'])}, {self.model.name}, seed {self.seed}"


class PicturesRecord(Stored):
    """The folder of pictures that a model was measured on."""

    name: str
    hash: str
    origin: str
    folder: str | None = None
    num_images: int
    num_available: int
    num_other_files: int = 0
    image_seed: int | None = None


class MeasuredModelRecord(Stored):
    """A model that was not trained here."""

    name: str
    source: str
    num_parameters: int


class WeightsRecord(Stored):
    """Where the weights of a measured model came from."""

    origin: Literal["file", "pretrained", "random initialisation", "memory"] = Field(alias="from")
    file: str | None = None
    sha256: str | None = None
    seed: int | None = None


class PreprocessingRecord(Stored):
    """How pictures became the input of a model."""

    text: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class MeasuredModel(Stored):
    """run.json of a model that was measured without being trained here."""

    schema_version: Literal[1]
    kind: Literal["model"]
    status: str
    model: MeasuredModelRecord
    weights: WeightsRecord
    notes: list[str] = Field(default_factory=list)
    provenance: ProvenanceRecord = ProvenanceRecord()
    data: PicturesRecord
    preprocessing: PreprocessingRecord

    @property
    def name(self) -> str:
        """The name in tables; models with random weights are marked."""
        untrained = self.weights.origin == "random initialisation"
        return self.model.name + ", random initialisation" * untrained


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "<model>" if value.get("kind") == "model" else "<run>"
    return "<model>" if isinstance(value, MeasuredModel) else "<run>"


RunRecord = TrainedRun | MeasuredModel
RUN_FILE: StoredFile[RunRecord] = StoredFile(
    name="run.json",
    kind=Annotated[
        Annotated[TrainedRun, Tag("<run>")] | Annotated[MeasuredModel, Tag("<model>")],
        Discriminator(_kind),
    ],
    repair="restore it from a copy, or train or measure again into another folder",
    absent="{folder} has no run.json; give the folder of a run or of a measured model",
)
