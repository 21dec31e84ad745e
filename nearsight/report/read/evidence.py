"""What a report knows of a run or a measured model: its files, checked once, as plain numbers.

Only run.json, train.jsonl and measure.json are read. A file that lacks something is named here, so
that tables and figures can rely on what they get.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.measure.catalogue import CATALOGUE, RUN_NUMBERS, metric, shown_in
from nearsight.report.read.learned import (
    PARTS,
    Gates,
    Gaussians,
    Look,
    estimate_of,
    gates_of,
    gaussians_of,
    looks_of,
)
from nearsight.runs import LOG, MEASURE, read_lines, read_measure, read_record
from nearsight.stats import Estimate, wilson_interval

CONVENTION = "paper"  # the one that figures and their fixed scales are made for


@dataclass(frozen=True)
class Heads:
    """One metric of every head: [layer][head]."""

    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]


@dataclass(frozen=True)
class Evidence:
    """One measured run, or one model that was measured without being trained here."""

    path: Path
    record: dict[str, Any]
    measure: dict[str, Any]
    log: list[dict[str, Any]]  # a line per epoch
    looks: list[Look]  # at the attention while the run trained
    seed: int | None  # None for a model
    grid: tuple[int, int]  # of the first layer
    family: tuple[Any, ...]  # data and geometry: runs that agree in it share figures
    scalars: dict[str, Estimate]  # the numbers of a run, by their names in the catalogue
    heads: dict[str, Heads]  # by metric, in the order of the catalogue
    layers: dict[str, list[Estimate]]  # mean over a layer's heads, by metric
    features: dict[str, list[Estimate | None]]  # metrics of a whole layer, where measured
    gaussians: list[Gaussians | None]  # of every layer, where it has GAug
    gates: list[Gates | None]  # of every layer, where it has GPSA

    @property
    def is_model(self) -> bool:
        return "protocol" not in self.record

    @property
    def model_name(self) -> str:
        return self.record["model"]["name"]

    @property
    def sized_name(self) -> str:
        """With depth and width where the protocol changes those of the name."""
        own = {} if self.is_model else self.record["protocol"]["model"]
        words = (("layers", own.get("depth")), ("wide", own.get("width")))
        changed = ", ".join(f"{number} {word}" for word, number in words if number)
        return f"{self.model_name} ({changed})" if changed else self.model_name

    @property
    def architecture(self) -> str:
        """What a model at random initialisation depends on, and its name."""
        own = {} if self.is_model else self.record["protocol"]["model"]
        return json.dumps({**own, "name": self.model_name, "weights": None}, sort_keys=True)

    @property
    def protocol(self) -> dict[str, Any]:
        """What tells conditions apart: a run's protocol, a model's name and weights."""
        if not self.is_model:
            return self.record["protocol"]
        weights = self.record["weights"]
        origin = f"file {weights['sha256']}" if "sha256" in weights else weights["from"]
        return {"name": self.record["model"]["name"], "weights": origin}

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Of every layer; a hierarchical model has several."""
        return [tuple(layer.get("grid", self.grid)) for layer in self.measure["layers"]]

    def null(self, layer: int) -> dict[str, float]:
        """The null lines of a layer's grid (layer counted from 0)."""
        return self.measure["layers"][layer].get("null") or self.measure["null"]


def required_metrics() -> list[str]:
    """Return the metrics without which there is no report."""
    return [x.name for x in shown_in("report") if x.default]


def read_run(path: Path) -> Evidence:
    """The evidence of a run folder; UserError says what is missing and what to do."""
    path = Path(path)
    record = read_record(path)
    if "protocol" in record and record.get("status") != "finished":
        raise UserError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    measure = read_measure(path)
    _check_measured(path, measure)
    lines = read_lines(path / LOG)
    try:
        return _evidence(path, record, measure, lines)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"run.json, {LOG} or {MEASURE} in {path} is damaged ({what}); "
            f"run nearsight measure {path} again"
        ) from error


def _check_measured(path: Path, measure: dict[str, Any]) -> None:
    """A report needs three metrics in the convention its scales are made for."""
    convention, summary = measure.get("convention"), measure.get("summary")
    if not isinstance(convention, dict) or not isinstance(summary, dict):
        return  # damaged, which is said below
    if convention.get("name", CONVENTION) != CONVENTION:
        raise UserError(
            f"expected a measurement in the convention {CONVENTION} for a report, got "
            f"{convention['name']} in {path}; measure it again with --convention {CONVENTION}"
        )
    lacking = [
        name
        for name in required_metrics()
        if f"layer_mean_{name}" not in summary and f"mean_{name}" not in summary
    ]
    if lacking:
        raise UserError(
            f"expected {', '.join(required_metrics())} for a report, but {path} was measured "
            f"without {', '.join(lacking)}; measure it again with --metrics default"
        )


def _evidence(
    path: Path, record: dict[str, Any], measure: dict[str, Any], lines: list[dict[str, Any]]
) -> Evidence:
    n, summary = int(measure["num_images"]), measure["summary"]
    log = [line for line in lines if line["epoch"]]  # epoch 0 only looks at the attention

    def estimate(entry: dict[str, Any]) -> Estimate:
        return Estimate(
            float(entry["value"]), float(entry["low"]), float(entry["high"]), n, "images"
        )

    measured = [x.name for x in shown_in("report") if x.default or f"mean_{x.name}" in summary]
    scalars: dict[str, Estimate] = {}
    for number in RUN_NUMBERS:
        if number.metric in measured:
            if (entry := number.entry(summary)) is None:
                raise KeyError(number.name)
            scalars[number.name] = estimate(entry)
    if "protocol" in record:
        scored, total = record["result"], int(record["result"]["num_test"])
        for name in ("accuracy", "top5_accuracy"):
            if (share := scored.get(f"test_{name}")) is not None:  # older runs have no top-5
                bounds = wilson_interval(float(share), total)
                scalars[name] = Estimate(float(share), *bounds, total, "images")
    heads = {
        name: Heads(*([layer[name][part] for layer in measure["layers"]] for part in PARTS))
        for name in measured
    }
    sizes = [len(layer) for metric in heads.values() for layer in metric.mean]
    if sizes != list(measure["num_heads"]) * len(measured):
        raise UserError("its heads are not as many as it says")
    layers = {
        name: [estimate(entry) for entry in summary[f"layer_mean_{name}"]] for name in measured
    }
    features = {
        x.name: [
            None if layer[x.name]["mean"] is None else estimate_of(layer[x.name], n)
            for layer in measure["layers"]
        ]
        for x in CATALOGUE
        if x.per == "layer" and all(x.name in layer for layer in measure["layers"])
    }
    lacking = [
        key
        for place, keys in _required(record, measure, log)
        for key in keys
        if place.get(key) is None
    ]
    if lacking:
        raise KeyError(lacking[0])
    rows, cols = (int(size) for size in measure["grid"])
    data = record["data"]["name"], record["data"]["hash"]
    geometry = [
        (*layer.get("grid", (rows, cols)), heads)
        for layer, heads in zip(measure["layers"], measure["num_heads"])
    ]
    seed = int(record["seed"]) if "protocol" in record else None
    return Evidence(
        path=path, record=record, measure=measure, log=log, looks=looks_of(lines), seed=seed,
        grid=(rows, cols), gates=[gates_of(x.get("gpsa")) for x in measure["layers"]],
        gaussians=[gaussians_of(x.get("gaussian"), n) for x in measure["layers"]],
        family=(*data, seed is None, tuple(geometry)), scalars=scalars, heads=heads, layers=layers,
        features=features,
    )  # fmt: skip


def _required(
    record: dict[str, Any], measure: dict[str, Any], log: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """What tables and figures take as given, beside what is read here."""
    nulls = tuple(
        f"{line}_{name}"
        for line in ("uniform", "box")
        for name in required_metrics()
        if metric(name).nulls
    )
    line_keys = ("epoch", "train_loss", "validation_loss", "validation_accuracy")
    shared: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        (measure["null"], nulls),
        (measure, ("num_layers", "seconds", "convention")),
        (record["model"], ("num_parameters",)),
        *((line, line_keys) for line in log),
    ]
    if "protocol" not in record:
        return [
            *shared,
            (record, ("weights", "preprocessing")),
            (record["data"], ("num_images", "num_available")),
        ]
    return [
        *shared,
        (record["result"], ("best_epoch", "num_epochs", "images_seen", "seconds")),
        (record["data"], ("origin", "num_train", "num_validation", "num_test")),
    ]
