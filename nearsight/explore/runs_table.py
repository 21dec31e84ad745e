"""Gather the table of runs and the results of studies for the page.

Only run.json, train.jsonl, measure.json, and the summary and claims of a study are read. If a run
cannot be read, the table shows the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearsight.measure.catalogue import RUN_NUMBERS, number_named
from nearsight.protocol import spoken_name
from nearsight.report.read import flat_settings, looks_of
from nearsight.runs import MEASURE, read_log, read_measure, read_record
from nearsight.runs.records import (
    CLAIMS_FILE,
    STUDY_FILE,
    SUMMARY_FILE,
    LogLine,
    MeasureRecord,
    RunRecord,
    TrainedRun,
)
from nearsight.stats import wilson_interval

SUMMARY, CLAIMS = SUMMARY_FILE.name, CLAIMS_FILE.name
MAX_POINTS = 60  # points per learning curve
DIGITS = 5
MIN_MAD = number_named("min_mad")
DAMAGED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OSError)

Row = dict[str, Any]


def run_rows(runs: Mapping[str, Path]) -> list[Row]:
    """Return a row per run with its description, numbers, intervals and learning curves.

    The rows contain only the settings in which the runs differ.
    """
    rows = [_row(name, folder) for name, folder in runs.items()]
    keys = sorted({key for row in rows for key in row["settings"]})
    differing = [key for key in keys if len({str(row["settings"].get(key)) for row in rows}) > 1]
    for row in rows:
        row["settings"] = {key: row["settings"].get(key) for key in differing}
    return rows


def study_contents(name: str, folder: Path) -> dict[str, Any]:
    """Return the question of a study, and its conditions, effects and claims if they exist."""
    try:
        study = STUDY_FILE.read(folder)
        found = {
            "name": name,
            "study": study.study,
            "question": study.question,
            "num_cells": len(study.cells),
        }
        return found | _summary(folder) | {"claims": _claims(folder), "note": ""}
    except DAMAGED as error:
        return {"name": name, "study": name, "question": "", "num_cells": 0, "conditions": [],
                "effects": [], "claims": [], "note": _reason(error)}  # fmt: skip


def _row(name: str, folder: Path) -> Row:
    row: Row = {
        "name": name, "protocol": "", "model": "", "data": "", "seed": None, "status": "damaged",
        "values": {}, "settings": {}, "curve": None, "note": "",
    }  # fmt: skip
    try:
        record = read_record(folder)
        row |= _facts(record)
        if (folder / MEASURE).is_file():
            row["values"] |= _measured(read_measure(folder))
        row["curve"] = _curve(read_log(folder), folder)
    except DAMAGED as error:
        row["note"] = _reason(error)
    return row


def _facts(record: RunRecord) -> Row:
    """Return what run.json records about a run."""
    facts: Row = {
        "model": record.model.name,
        "data": record.data.name,
        "status": record.status,
        "values": {},
    }
    if not isinstance(record, TrainedRun):
        return facts | {"protocol": "measured only"}
    if result := record.result:
        scores = {"accuracy": result.test_accuracy, "test_knn_accuracy": result.test_knn_accuracy}
        for name, share in scores.items():
            if share is not None:
                bounds = wilson_interval(share, result.num_test)
                facts["values"][name] = _rounded([share, *bounds])
        facts["values"]["epochs"] = [result.num_epochs]
    settings = flat_settings(record.protocol)
    return facts | {
        "protocol": spoken_name(str(settings.pop("name"))),
        "seed": record.seed,
        "settings": {key: _plain(value) for key, value in settings.items()},
    }


def _measured(measure: MeasureRecord) -> dict[str, list[float]]:
    """Return the numbers of measure.json with their intervals over images."""
    entries = {x.name: x.entry(measure.numbers) for x in RUN_NUMBERS if x.metric}
    return {
        name: _rounded([entry.value, entry.low, entry.high])
        for name, entry in entries.items()
        if entry is not None
    }


def _curve(lines: Sequence[LogLine], folder: Path) -> dict[str, list[Any]] | None:
    """Return losses, accuracies and measured min MAD by epoch, thinned to ``MAX_POINTS``."""
    if not lines:
        return None
    step = math.ceil(len(lines) / MAX_POINTS)
    kept = [line for i, line in enumerate(lines) if i % step == 0 or i == len(lines) - 1]
    looks = {look.epoch: look for look in looks_of(kept, folder)}
    return {
        "epoch": [line.epoch for line in kept],
        "train_loss": _rounded([getattr(line, "train_loss", None) for line in kept]),
        "validation_accuracy": _rounded([getattr(line, "score", None) for line in kept]),
        "min_mad": _rounded(
            [looks[x.epoch].number(MIN_MAD) if x.epoch in looks else None for x in kept]
        ),
    }


def _summary(folder: Path) -> dict[str, Any]:
    if not (folder / SUMMARY).is_file():
        return {"conditions": [], "effects": []}
    summary = SUMMARY_FILE.read(folder)
    conditions = [
        {
            "value": x.value, "condition": x.condition, "num_seeds": len(x.seeds),
            "estimate": _rounded([x.mean, x.low, x.high]),
        }
        for x in summary.conditions
    ]  # fmt: skip
    effects = [
        {
            "value": table.value, "factors": effect.factors, "num_seeds": x.n,
            "p": effect.holm_p, "estimate": _rounded([x.value, x.low, x.high]),
        }
        for table in summary.effects
        for effect in table.effects
        if (x := effect.estimate) is not None
    ]  # fmt: skip
    return {"conditions": conditions, "effects": effects}


def _claims(folder: Path) -> list[dict[str, Any]]:
    if not (folder / CLAIMS).is_file():
        return []
    keys = ("id", "source", "sentence", "paper", "decision", "reason", "scale", "claimed_scale")
    verdicts = CLAIMS_FILE.read(folder).verdicts
    return [{key: str(getattr(verdict, key) or "") for key in keys} for verdict in verdicts]


def _plain(value: Any) -> Any:
    """Return a setting as one value; a list becomes text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _rounded(values: Sequence[Any]) -> list[Any]:
    return [round(x, DIGITS) if isinstance(x, float) else x for x in values]


def _reason(error: Exception) -> str:
    return f"lacks {error}" if isinstance(error, KeyError) else str(error)
