"""What came of a study's cells: outcomes at the end, courses over epochs, read from their folders.

Only run.json, train.jsonl and measure.json are read. A cell that is not finished is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nearsight.measure.catalogue import RUN_NUMBERS
from nearsight.report.read import looks_of
from nearsight.runs import LOG, read_lines, read_measure, read_record
from nearsight.study.analyse.matched import Course
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.design import Cell, Level, protocol_settings
from nearsight.study.folder import cell_folder, is_finished, read_cells

EARLY = 5  # epochs; the paper says "the first few"


def outcomes(out: Path) -> list[Outcome]:
    """The numbers of every finished cell, in the order of the study."""
    found = []
    for cell in read_cells(out):
        folder = cell_folder(out, cell)
        if is_finished(folder):
            settings = settings_of(cell, folder)
            found.append(Outcome(cell.factors, cell.seed, values_of(folder), settings))
    return found


def settings_of(cell: Cell, folder: Path) -> dict[str, Level]:
    """Everything that was set, and the grid of a finished cell, as claims read it."""
    rows, cols = read_measure(folder)["grid"]
    return protocol_settings(cell.protocol, (rows, cols))


def values_of(folder: Path) -> dict[str, float]:
    """The numbers of a finished cell by name."""
    record, measure = read_record(folder), read_measure(folder)
    summary = measure["summary"]
    result, log = record["result"], read_lines(folder / LOG)
    found: dict[str, Any] = {
        "accuracy": result["test_accuracy"],
        "top5_accuracy": result.get("test_top5_accuracy"),
        "validation_accuracy": result["validation_accuracy"],
        "mean_mad": summary["mean_mad"]["value"],
        **{x.name: entry["value"] for x in RUN_NUMBERS if (entry := x.entry(summary))},
        "epochs": result["num_epochs"],
        "best_epoch": result["best_epoch"],
        "images_seen": result["images_seen"],
        "train_loss": log[-1]["train_loss"],
        "seconds": result["seconds"],
        "num_parameters": record["model"]["num_parameters"],
        **claim_values(measure, log),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def courses(out: Path) -> list[Course]:
    """Every finished cell epoch by epoch: validation accuracy, and attention where it was seen."""
    found = []
    for cell in read_cells(out):
        folder = cell_folder(out, cell)
        if not is_finished(folder):
            continue
        lines = read_lines(folder / LOG)
        looks = {look.epoch: look for look in looks_of(lines)}
        seen = [looks.get(line["epoch"]) for line in lines]
        values: dict[str, list[float | None]] = {
            "accuracy": [line.get("validation_accuracy") for line in lines],
            **{
                x.name: [look.number(x) if look else None for look in seen] for x in RUN_NUMBERS[1:]
            },
        }
        losses = [line.get("train_loss", math.inf) for line in lines]
        epochs, settings = [line["epoch"] for line in lines], settings_of(cell, folder)
        found.append(Course(cell.factors, cell.seed, epochs, losses, values, settings))
    return found


def claim_values(
    measure: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """By name; ``lines`` of train.jsonl."""
    summary, last = measure["summary"], measure["layers"][-1]
    by_layer = summary["layer_mean_mad"]
    found: dict[str, float | None] = {
        "min_entropy": summary["min_entropy"]["value"],
        "layer1_entropy": summary["layer_mean_entropy"][0]["value"],
        "mad_rise": by_layer[-1]["value"] - by_layer[0]["value"],
        "nonlocality": summary.get("mean_nonlocality", {}).get("value"),
        "last_locality_score": last.get("locality_score", {}).get("mean"),
        "last_cls_similarity": last.get("cls_similarity", {}).get("mean"),
        **_while_training(lines),
    }
    return {name: float(x) for name, x in found.items() if x is not None}


def _while_training(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    looks = {line["epoch"]: line["attention"] for line in lines if line.get("attention")}
    if 0 not in looks or len(looks) < 2:
        return {}
    first, last = looks[0], looks[max(looks)]
    found: dict[str, float] = {}
    early = [epoch for epoch in looks if 0 < epoch <= EARLY]
    if early and _far(first):
        found["early_nonlocality"] = max(
            after - before for before, after in zip(_far(first), _far(looks[max(early)]))
        )
    gated = [i for i, entry in enumerate(first.get("gpsa", [])) if entry]
    if gated and _far(first):
        found["gpsa_nonlocality"] = min(_far(last)[i] - _far(first)[i] for i in gated)
    gates = [(first["gpsa"][i]["gate"], last["gpsa"][i]["gate"]) for i in gated]
    if gates and all(before and after for before, after in gates):
        found["gate_change"] = max(fmean(after) - fmean(before) for before, after in gates)
    return found


def _far(look: Mapping[str, Any]) -> list[float]:
    """Nonlocality of every layer."""
    return [entry["value"] for entry in look.get("layer_mean_nonlocality") or []]
