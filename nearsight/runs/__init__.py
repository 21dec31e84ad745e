"""Run folders: the files in them, where a run came from, and loading a trained run."""

from __future__ import annotations

from nearsight.runs.examples import (
    EXAMPLES,
    Example,
    Examples,
    LayerExample,
    LayerPlaces,
    likeness_codes,
    picture_source,
    read_examples_contents,
    write_examples,
)
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
from nearsight.runs.origin import commit, hardware, native_code, provenance
from nearsight.runs.settling import TEACHER_WORDS, settle
from nearsight.runs.stage import Stage

__all__ = [
    "CAUSAL",
    "CHECKPOINT",
    "EXAMPLES",
    "LOG",
    "MEASURE",
    "MEASURE_VERSION",
    "RECORD",
    "SCHEMA_VERSION",
    "TEACHER_WORDS",
    "TIMING",
    "WEIGHTS",
    "Example",
    "Examples",
    "LayerExample",
    "LayerPlaces",
    "LoadedRun",
    "Stage",
    "commit",
    "file_hash",
    "hardware",
    "likeness_codes",
    "load_run",
    "locked",
    "native_code",
    "picture_source",
    "provenance",
    "read_examples_contents",
    "read_json",
    "read_lines",
    "read_measure",
    "read_record",
    "run_name",
    "settle",
    "write_examples",
    "write_json",
]
