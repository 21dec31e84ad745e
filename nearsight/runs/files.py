"""The files of a run folder: their names, and reading and writing them.

run.json            protocol, seed, data, model, provenance, status, result
train.jsonl         a line per epoch: only what protocol and seed decide
timing.jsonl        a line per epoch: wall-clock and images/s
weights.safetensors the best checkpoint
checkpoint/         what is needed to go on (train/checkpoint.py)
measure.json        attention metrics of every head (measure/folders/summary.py)
measure.safetensors the same per image (measure/folders/values.py)
causal.json         accuracy lost when heads are changed (evaluate/causal.py)

A model that was measured without being trained here has run.json (kind "model": its name, weights,
preprocessing) and the two files of measure (measure/folders/).
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from nearsight.core import UserError, hold_lock, write_bytes

SCHEMA_VERSION = 1


MEASURE_VERSION = 2  # of measure.json


RECORD, LOG, TIMING = "run.json", "train.jsonl", "timing.jsonl"


WEIGHTS, MEASURE, CHECKPOINT, LOCK = "weights.safetensors", "measure.json", "checkpoint", "lock"


CAUSAL = "causal.json"


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path, newest: int = SCHEMA_VERSION) -> dict[str, Any]:
    """A JSON file of ours; UserError when it is cut off or of an unknown schema."""
    try:
        content = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged, it is not JSON: {error}") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version not in range(1, newest + 1):
        known = " or ".join(map(str, range(1, newest + 1)))
        raise UserError(f"expected schema_version {known} in {path}, got {version!r}")
    return content


def read_measure(folder: Path) -> dict[str, Any]:
    """measure.json of a measured folder; version 2 adds to version 1 and changes nothing in it."""
    path = Path(folder) / MEASURE
    if not path.is_file():
        raise UserError(f"{folder} has no {MEASURE}: run nearsight measure {folder} first")
    return read_json(path, MEASURE_VERSION)


def read_record(folder: Path) -> dict[str, Any]:
    """run.json of a run folder."""
    path = Path(folder) / RECORD
    if not path.is_file():
        raise UserError(f"expected a run folder with {RECORD}, found none in {folder}")
    return read_json(path)


def run_name(record: dict[str, Any]) -> str:
    """A run by protocol, model and seed, a model by its name and whether it was trained at all."""
    if "protocol" in record:
        return f"{record['protocol']['name']}, {record['model']['name']}, seed {record['seed']}"
    untrained = record["weights"]["from"] == "random initialisation"
    return record["model"]["name"] + ", random initialisation" * untrained


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a .jsonl file; a half-written last line is left out."""
    if not path.is_file():
        return []
    whole = path.read_text().split("\n")[:-1]
    try:
        return [json.loads(line) for line in whole]
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is damaged: {error}") from None


def locked(folder: Path) -> AbstractContextManager[None]:
    """Hold the run folder."""
    return hold_lock(folder / LOCK, "train")


def file_hash(path: Path) -> str:
    """sha256 of a file, the first 16 digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
