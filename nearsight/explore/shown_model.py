"""A subject of the explorer: one model, what it makes of a few images, the numbers of its heads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsight.explore.heads import measured_numbers, profile_numbers, training_looks
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

NUM_SHOWN = 4  # images whose attention the page holds
METRICS = ("mad", "entropy", "self_mass")
MOST_BYTES = 12_000_000  # of attention in a page of many runs
MOST_MODELS = 8


@dataclass(frozen=True)
class ShownModel:
    """One model as the page shows it; ``None`` and empty lists stand for what there is not."""

    name: str
    detail: str = ""  # a line below the name: weights, data, seed
    examples: dict[str, Any] | None = None  # the contents of examples.json
    numbers: dict[str, Any] | None = None  # see heads.py
    looks: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""  # why something is missing

    def contents(self) -> dict[str, Any]:
        return asdict(self)


def subject_of_model(
    name: str,
    model: nn.Module,
    images: Images,
    num_shown: int = NUM_SHOWN,
    detail: str = "",
) -> ShownModel:
    """Show a model some images: attention of the first ones, numbers of its heads over all."""
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
    """Show what the files of a run folder hold; no model is loaded."""
    record = read_record(folder)
    if (folder / MEASURE).is_file():
        return subject_of_files(read_measured(folder, record))
    return _subject(folder, record, None, read_log(folder))


def subject_of_files(files: MeasuredFolder) -> ShownModel:
    """Show the records of a measured folder, which were read before, and its stored examples."""
    return _subject(files.path, files.record, measured_numbers(files.measure), files.log)


def _subject(
    folder: Path, record: RunRecord, numbers: dict[str, Any] | None, log: Sequence[LogLine]
) -> ShownModel:
    examples = read_examples_contents(folder)
    note = ""
    if examples is None:
        note = f"There is no attention of example images: run nearsight measure {folder}."
    return ShownModel(
        record.name, record_detail(record), examples, numbers,
        training_looks(log), note,
    )  # fmt: skip


def record_detail(record: RunRecord) -> str:
    """Say on what data a run was trained, or where the weights of a model come from."""
    if isinstance(record, TrainedRun):
        return f"trained on {record.data.name}, seed {record.seed}"
    weights = record.weights
    return f"weights: {Path(weights.file).name if weights.file else weights.origin}"


def fit_page(subjects: Sequence[ShownModel]) -> list[ShownModel]:
    """Choose as much of many models as a page can hold that is to be sent.

    Models beyond the eighth are left out. Then images are left out, the last ones first, and then
    models, until the rest is small enough.
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
