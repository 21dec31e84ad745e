"""Run folders: their files and typed records, where a run came from, loading a trained run."""

from __future__ import annotations

from nearsight.runs.answers import ANSWERS, read_answers, write_answers
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
    EVALUATE,
    LOCK,
    LOG,
    MEASURE,
    RECORD,
    SCHEMA_VERSION,
    TIMING,
    WEIGHTS,
    MeasuredFolder,
    file_hash,
    locked,
    read_json,
    read_log,
    read_measure,
    read_measured,
    read_record,
    write_json,
)
from nearsight.runs.load import LoadedRun, load_run
from nearsight.runs.origin import commit, hardware, native_code, provenance
from nearsight.runs.records import MEASURE_VERSION
from nearsight.runs.settling import TEACHER_WORDS, settle
from nearsight.runs.stage import Stage

__all__ = [
    "ANSWERS",
    "CAUSAL",
    "CHECKPOINT",
    "EVALUATE",
    "EXAMPLES",
    "LOCK",
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
    "MeasuredFolder",
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
    "read_answers",
    "read_examples_contents",
    "read_json",
    "read_log",
    "read_measure",
    "read_measured",
    "read_record",
    "settle",
    "write_answers",
    "write_examples",
    "write_json",
]
