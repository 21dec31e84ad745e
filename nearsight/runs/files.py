"""Name, read and write the files of a run folder.

run.json            protocol, seed, data, model, provenance, status, result
train.jsonl         a line per epoch: only what protocol and seed determine
timing.jsonl        a line per epoch: wall-clock time and images/s
weights.safetensors the best weights
test-answers.npy    which test images they classify correctly (runs/answers.py)
checkpoint/         what is needed to continue training (train/checkpoint.py)
measure.json        attention metrics of every head (measure/folders/measure_contents.py)
measure.safetensors the same per image (measure/profile/values.py)
causal.json         accuracy lost when heads are changed (evaluate/causal.py)
evaluate.json       scores of frozen features on downstream tasks (evaluate/evaluation.py)
evaluate.npz        the same per image

The folder of a model that was measured but not trained here has run.json (kind "model": the name,
weights and preprocessing of the model) and the files of measure (measure/folders/).

The records (records/) define the contents of each JSON file. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError, finish_unit, hold_lock, write_bytes, write_unit
from nearsight.runs.records import (
    CAUSAL_FILE,
    EVALUATE_FILE,
    LOG_FILE,
    MEASURE_FILE,
    RUN_FILE,
    TIMING_FILE,
    EpochLine,
    EvaluateRecord,
    LogLine,
    MeasureRecord,
    RunRecord,
    TrainedRun,
)

SCHEMA_VERSION = 1
RECORD, LOG, TIMING = RUN_FILE.name, LOG_FILE.name, TIMING_FILE.name
MEASURE, CAUSAL, EVALUATE = MEASURE_FILE.name, CAUSAL_FILE.name, EVALUATE_FILE.name
WEIGHTS, CHECKPOINT, LOCK = "weights.safetensors", "checkpoint", "lock"
MEASUREMENT = "measure"  # the unit of the files that one measurement writes
EVALUATION = "evaluate"  # the unit of the files that one evaluation writes
_RESTORE = "restore it from a copy, or delete it and run the command that wrote it again"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file completely or not at all."""
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that is not a record: the state of a checkpoint, the note of an engine.

    Raises:
        UserError: If the file is not complete JSON, or has another ``schema_version``.
    """
    try:
        content = json.loads(path.read_text())
    except RecursionError:
        raise UserError(f"{path} is damaged: it is nested too deep; {_RESTORE}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged: it is not JSON ({error}); {_RESTORE}") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema_version {version!r}, but this version of nearsight reads "
            f"{SCHEMA_VERSION}; install the version that wrote it"
        )
    return content


def read_record(folder: Path) -> RunRecord:
    """Read run.json of a run folder."""
    finish_measurement(folder)
    return RUN_FILE.read(folder)


def read_measure(folder: Path) -> MeasureRecord:
    """Read measure.json of a measured folder, and check that it belongs to the files beside it.

    Raises:
        UserError: If it is damaged, or the files beside it are from another measurement.
    """
    finish_measurement(folder)
    record = MEASURE_FILE.read(folder)
    _check_files(folder, MEASURE, record.files)
    return record


def read_evaluate(folder: Path) -> EvaluateRecord:
    """Read evaluate.json of a folder, and check that it belongs to the file of records beside it.

    Raises:
        UserError: If it is damaged, or the file beside it is from another evaluation.
    """
    finish_evaluation(folder)
    record = EVALUATE_FILE.read(folder)
    _check_files(folder, EVALUATE, record.files)
    return record


def write_evaluation(
    folder: Path, contents: Mapping[str, Any], others: Mapping[str, bytes]
) -> Path:
    """Write evaluate.json and the files of the same evaluation as one unit; return its path."""
    encoded = EVALUATE_FILE.encode({**contents, "files": _hashes(others)})
    write_unit(Path(folder), EVALUATION, {**others, EVALUATE: encoded})
    return Path(folder) / EVALUATE


def write_measurement(
    folder: Path, contents: dict[str, Any], others: Mapping[str, bytes | None]
) -> None:
    """Write measure.json and the files of the same measurement as one unit.

    Args:
        folder: The folder of a run or a model.
        contents: The contents of measure.json, without the hashes of the other files.
        others: The contents of the other files by name; None removes the file.
    """
    measured = MEASURE_FILE.encode(contents | {"files": _hashes(others)})
    write_unit(Path(folder), MEASUREMENT, {**others, MEASURE: measured})


def finish_measurement(folder: Path) -> None:
    """Complete a measurement whose process was killed while it moved its files into place."""
    finish_unit(Path(folder), MEASUREMENT)


def finish_evaluation(folder: Path) -> None:
    """Complete an evaluation whose process was killed while it moved its files into place."""
    finish_unit(Path(folder), EVALUATION)


def _hashes(files: Mapping[str, bytes | None]) -> dict[str, str]:
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if content is not None
    }


def _check_files(folder: Path, name: str, hashes: Mapping[str, str]) -> None:
    """Raise UserError if a file beside a record is not the one that was written with it."""
    for other, digest in hashes.items():
        path = Path(folder) / other
        if path.is_file() and _sha256(path) != digest:  # an exported study leaves files out
            raise _mismatch(folder, name, f"{other} is not the file that was written with it")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mismatch(folder: Path, name: str, problem: str) -> UserError:
    """Return the error about a record that does not belong to the files beside it."""
    return UserError(
        f"{Path(folder) / name} does not belong to the files beside it: {problem}; "
        f"run nearsight {name.partition('.')[0]} again"
    )


def read_log(folder: Path) -> list[LogLine]:
    """Read the complete lines of train.jsonl; a last line that is cut off is left out."""
    return LOG_FILE.read_lines(folder)


@dataclass(frozen=True)
class MeasuredFolder:
    """The records of a run or model that was measured, read once."""

    path: Path
    record: RunRecord
    measure: MeasureRecord
    log: list[LogLine]  # empty for a model


def read_measured(folder: Path, record: RunRecord) -> MeasuredFolder:
    """Read what a report needs of a folder besides run.json, which the caller has read.

    Raises:
        UserError: If measure.json is about other weights or images than run.json, or if
            train.jsonl of a finished run lacks epochs.
    """
    measure = read_measure(folder)
    weights = measure.weights.sha256 if measure.weights else None
    recorded = record.weights_sha256 if isinstance(record, TrainedRun) else record.weights.sha256
    if weights and recorded and not recorded.startswith(weights):
        problem = f"it measured the weights {weights}, but {RECORD} has {recorded[:16]}"
        raise _mismatch(folder, MEASURE, problem)
    if measure.data.hash != record.data.hash:
        problem = f"it measured the images {measure.data.hash}, but {RECORD} has {record.data.hash}"
        raise _mismatch(folder, MEASURE, problem)
    log = read_log(folder)
    if isinstance(record, TrainedRun) and record.is_finished:
        _check_log(folder, log, record.outcome.num_epochs)
    return MeasuredFolder(folder, record, measure, log)


def _check_log(folder: Path, log: Sequence[LogLine], num_epochs: int) -> None:
    """Raise UserError unless the log of a finished run has every epoch once, in order."""
    epochs = [line.epoch for line in log if isinstance(line, EpochLine)]
    if len(epochs) == num_epochs and epochs == list(range(1, len(epochs) + 1)):
        return
    path = Path(folder) / LOG
    found = f"has {len(epochs)} epochs" if path.is_file() else "is missing"
    raise UserError(
        f"{path} {found}, but result.num_epochs in {RECORD} is {num_epochs}; {LOG_FILE.repair}"
    )


def lock_run(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a run folder, or raise UserError if another process has it."""
    return hold_lock(folder / LOCK, "train")


locked = lock_run  # the old name, for one version


def file_hash(path: Path) -> str:
    """Return the first 16 hex digits of the sha256 of a file."""
    return _sha256(path)[:16]
