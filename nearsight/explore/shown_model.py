"""Gather what the explorer shows of one model: its attention on images and its heads' numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsight.explore.head_numbers import measured_numbers, profile_numbers, training_looks
from nearsight.runs import (
    MEASURE,
    MeasuredFolder,
    read_examples_contents,
    read_log,
    read_measured,
    read_record,
)
from nearsight.runs.records import LogLine, RunRecord, TrainedRun

if TYPE_CHECKING:
    from torch import nn

    from nearsight.explore.images import Images

NUM_SHOWN = 4  # images whose attention the page contains
METRICS = ("mad", "entropy", "self_mass")
MOST_BYTES = 12_000_000  # limit for the attention in a page of many runs
MOST_MODELS = 8


@dataclass(frozen=True)
class ShownModel:
    """One model as the page shows it. ``None`` and empty lists stand for missing parts."""

    name: str
    detail: str = ""  # a line below the name: weights, data, seed
    examples: dict[str, Any] | None = None  # the contents of examples.json
    numbers: dict[str, Any] | None = None  # see head_numbers.py
    looks: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""  # why something is missing

    def contents(self) -> dict[str, Any]:
        """Return the data of this model for the page."""
        return asdict(self)


def subject_of_model(
    name: str,
    model: nn.Module,
    images: Images,
    num_shown: int = NUM_SHOWN,
    detail: str = "",
) -> ShownModel:
    """Run a model on images.

    Args:
        name: The name of the model on the page.
        model: The model.
        images: The images, on all of which the numbers of the heads are averaged.
        num_shown: The number of images, from the first, whose attention is stored.
        detail: The line below the name.
    """
    from nearsight.measure.profile import measure_model
    from nearsight.measure.readouts import capture_examples

    shown = slice(0, num_shown)
    examples = capture_examples(
        model, images.inputs[shown], images.pixels[shown], images.names[shown]
    )
    metrics = (*METRICS, "position_share") if len(images.inputs) > 1 else METRICS
    profile = measure_model(model, images.inputs, metrics=metrics)
    return ShownModel(name, detail, examples.contents(), profile_numbers(profile))


def subject_of_folder(folder: Path) -> ShownModel:
    """Gather what the files of a run folder contain, without loading the model."""
    record = read_record(folder)
    if (folder / MEASURE).is_file():
        return subject_of_files(read_measured(folder, record))
    return _subject(folder, record, None, read_log(folder))


def subject_of_files(files: MeasuredFolder) -> ShownModel:
    """Gather the given records of a measured folder and its stored examples."""
    return _subject(files.path, files.record, measured_numbers(files.measure), files.log)


def _subject(
    folder: Path, record: RunRecord, numbers: dict[str, Any] | None, log: Sequence[LogLine]
) -> ShownModel:
    examples = read_examples_contents(folder)
    note = ""
    if examples is None:
        note = f"This run has no stored attention. To store some, run nearsight measure {folder}."
    return ShownModel(
        record.name, record_detail(record), examples, numbers,
        training_looks(log), note,
    )  # fmt: skip


def record_detail(record: RunRecord) -> str:
    """Return the line below a model's name: the data set of a run, or where the weights come from.

    The seed of a run is part of its name already.
    """
    if isinstance(record, TrainedRun):
        return f"trained on {record.data.name}"
    weights = record.weights
    return f"weights: {Path(weights.file).name if weights.file else weights.origin}"


def fit_page(subjects: Sequence[ShownModel]) -> list[ShownModel]:
    """Leave out models and images until the page is small enough to be sent.

    Models beyond the eighth are left out first, then the last images, then the last models.
    """
    for num_images in range(NUM_SHOWN, 0, -1):
        cut = [_with_images(subject, num_images) for subject in subjects[:MOST_MODELS]]
        if sum(map(_size, cut)) <= MOST_BYTES:
            return cut
    while len(cut) > 1 and sum(map(_size, cut)) > MOST_BYTES:
        cut.pop()
    return cut


def _with_images(subject: ShownModel, num: int) -> ShownModel:
    if subject.examples is None:
        return subject
    images = subject.examples["images"][:num]
    return replace(subject, examples={**subject.examples, "images": images})


def _size(subject: ShownModel) -> int:
    return len(json.dumps(subject.examples["images"])) if subject.examples else 0
