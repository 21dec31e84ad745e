"""Read and write run folders, record where a run came from, and load a trained run.

``records`` defines the contents of every file of a run or study folder.
"""

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
    finish_evaluation,
    finish_measurement,
    lock_run,
    locked,
    read_evaluate,
    read_json,
    read_log,
    read_measure,
    read_measured,
    read_record,
    write_evaluation,
    write_json,
    write_measurement,
)
from nearsight.runs.load import LoadedRun, load_run
from nearsight.runs.measured_settings import (
    NUM_TEST_IMAGES,
    differs_from,
    measured_settings,
    missing_names,
)
from nearsight.runs.origin import commit, cpu_name, hardware, native_code, provenance
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
    "NUM_TEST_IMAGES",
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
    "cpu_name",
    "differs_from",
    "file_hash",
    "finish_evaluation",
    "finish_measurement",
    "hardware",
    "likeness_codes",
    "load_run",
    "lock_run",
    "locked",
    "measured_settings",
    "missing_names",
    "native_code",
    "picture_source",
    "provenance",
    "read_answers",
    "read_evaluate",
    "read_examples_contents",
    "read_json",
    "read_log",
    "read_measure",
    "read_measured",
    "read_record",
    "settle",
    "write_answers",
    "write_evaluation",
    "write_json",
    "write_measurement",
]
