"""Define typed records of every file of a run or study folder, and read, check and write them.

A record is a pydantic model with a ``schema_version``. A ``StoredFile`` knows the file's name,
reads and writes it, and explains what is wrong with a damaged one. Nothing here needs torch.
"""

from __future__ import annotations

from nearsight.runs.records.causal_record import CAUSAL_FILE, CausalRecord, LossRecord
from nearsight.runs.records.diff_record import DIFF_FILE, DiffRecord, MetricChangeRecord
from nearsight.runs.records.entries import ExtremeRecord, IntervalRecord, ValuesRecord
from nearsight.runs.records.evaluate_record import (
    EVALUATE_FILE,
    RECORDS,
    EvaluateRecord,
    LayerDistances,
    ResultNumber,
    TaskResult,
)
from nearsight.runs.records.examples_record import EXAMPLES_FILE
from nearsight.runs.records.localise_record import LOCALISE_FILE, LocaliseRecord, TriedLocality
from nearsight.runs.records.log_records import (
    LOG_FILE,
    TIMING_FILE,
    EpochLine,
    LogLine,
    LookRecord,
    StartLine,
)
from nearsight.runs.records.measure_record import (
    MEASURE_FILE,
    MEASURE_VERSION,
    ConventionRecord,
    LayerRecord,
    MeasureRecord,
    SummaryNumbers,
)
from nearsight.runs.records.run_record import (
    FINISHED,
    RUN_FILE,
    MeasuredModel,
    ResultRecord,
    RunRecord,
    TeacherRecord,
    TrainedRun,
    origin_text,
)
from nearsight.runs.records.stored import Stored, StoredFile
from nearsight.runs.records.study_records import (
    CELL_FILE,
    CELL_VERSION,
    CLAIMS_FILE,
    FAILED_FILE,
    STUDY_FILE,
    SUMMARY_FILE,
    EstimateRecord,
    ImageEffectRecord,
    StudyRecord,
    SummaryRecord,
)

__all__ = [
    "CAUSAL_FILE",
    "CELL_FILE",
    "CELL_VERSION",
    "CLAIMS_FILE",
    "DIFF_FILE",
    "EVALUATE_FILE",
    "EXAMPLES_FILE",
    "FAILED_FILE",
    "FINISHED",
    "LOCALISE_FILE",
    "LOG_FILE",
    "MEASURE_FILE",
    "MEASURE_VERSION",
    "RECORDS",
    "RUN_FILE",
    "STUDY_FILE",
    "SUMMARY_FILE",
    "TIMING_FILE",
    "CausalRecord",
    "ConventionRecord",
    "DiffRecord",
    "EpochLine",
    "EstimateRecord",
    "EvaluateRecord",
    "ExtremeRecord",
    "ImageEffectRecord",
    "IntervalRecord",
    "LayerDistances",
    "LayerRecord",
    "LocaliseRecord",
    "LogLine",
    "LookRecord",
    "LossRecord",
    "MeasureRecord",
    "MeasuredModel",
    "MetricChangeRecord",
    "ResultNumber",
    "ResultRecord",
    "RunRecord",
    "StartLine",
    "Stored",
    "StoredFile",
    "StudyRecord",
    "SummaryNumbers",
    "SummaryRecord",
    "TaskResult",
    "TeacherRecord",
    "TrainedRun",
    "TriedLocality",
    "ValuesRecord",
    "origin_text",
]
