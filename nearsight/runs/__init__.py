"""Run folders: the files in them, where a run came from, and loading a trained run."""

from __future__ import annotations

from nearsight.runs.files import (
    CAUSAL,
    CHECKPOINT,
    LOG,
    MEASURE,
    MEASURE_VERSION,
    RECORD,
    SCHEMA_VERSION,
    TIMING,
    WEIGHTS,
    file_hash,
    locked,
    read_json,
    read_lines,
    read_measure,
    read_record,
    run_name,
    write_json,
)
from nearsight.runs.load import LoadedRun, load_run
from nearsight.runs.origin import hardware, provenance

__all__ = [
    "CAUSAL",
    "CHECKPOINT",
    "LOG",
    "MEASURE",
    "MEASURE_VERSION",
    "RECORD",
    "SCHEMA_VERSION",
    "TIMING",
    "WEIGHTS",
    "LoadedRun",
    "file_hash",
    "hardware",
    "load_run",
    "locked",
    "provenance",
    "read_json",
    "read_lines",
    "read_measure",
    "read_record",
    "run_name",
    "write_json",
]
