"""train.jsonl and timing.jsonl: one line per epoch.

train.jsonl holds only what protocol and seed determine. Its first line may be of epoch 0 and hold
what was measured before the first step. timing.jsonl holds what differs from machine to machine.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from nearsight.runs.records.entries import Entries, IntervalRecord, ValuesRecord
from nearsight.runs.records.stored import Stored, StoredFile

REPAIR = "restore it from a copy, or train the run again into another folder"


class LookRecord(Entries):
    """The attention of a model during training: metrics by name, each [layer][head]."""

    num_images: int
    read_layers: list[int] | None = None  # layers an output reads, from 1; older files: all

    @property
    def metrics(self) -> dict[str, ValuesRecord]:
        """Return the metrics by name."""
        return self.entries(ValuesRecord)

    def layer_means(self, metric: str) -> list[IntervalRecord] | None:
        """Return the mean of a metric over the heads of every layer, or None if it has none."""
        return self.entries(list).get(f"layer_mean_{metric}")


class StartLine(Stored):
    """The line of epoch 0."""

    schema_version: Literal[1]
    epoch: int
    step: int | None = None
    attention: LookRecord | None = None
    clean_train_loss: float | None = None


class EpochLine(StartLine):
    """The line of an epoch of training."""

    lr: float | None = None
    train_loss: float
    train_accuracy: float | None = None  # None if all images were mixed, or without labels
    validation_loss: float | None = None
    validation_accuracy: float | None = None  # None without labels
    validation_knn_accuracy: float | None = None  # of k-NN on frozen features, with DINO
    teacher_entropy: float | None = None  # with DINO: share of log(outputs)
    teacher_information: float | None = None  # with DINO: nats; 0 after a collapse
    feature_variance: float | None = None  # with DINO: of features of length 1
    best: bool | None = None

    @property
    def score(self) -> float | None:
        """The accuracy on the validation images: the model's own, or that of k-NN."""
        own = self.validation_accuracy
        return self.validation_knn_accuracy if own is None else own


class TimingLine(Stored):
    """How long an epoch took."""

    schema_version: Literal[1]
    epoch: int
    seconds: float
    images_per_second: float


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "<start>" if value.get("epoch") == 0 else "<epoch>"
    return "<epoch>" if isinstance(value, EpochLine) else "<start>"


LogLine = StartLine | EpochLine
LOG_FILE: StoredFile[LogLine] = StoredFile(
    name="train.jsonl",
    kind=Annotated[
        Annotated[StartLine, Tag("<start>")] | Annotated[EpochLine, Tag("<epoch>")],
        Discriminator(_kind),
    ],
    repair=REPAIR,
)
TIMING_FILE: StoredFile[TimingLine] = StoredFile(
    name="timing.jsonl",
    kind=TimingLine,
    repair=REPAIR,
)
