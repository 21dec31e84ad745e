"""What a report knows of a run or a measured model: its files, checked once, as plain numbers.

Only run.json, train.jsonl and measure.json are read. What a report needs beyond what their records
require is checked here, so that tables and figures can rely on what they get.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.measure.catalogue import (
    CATALOGUE,
    RUN_NUMBERS,
    NearKind,
    metric,
    near_kinds,
    shown_in,
)
from nearsight.report.read.learned import (
    Gates,
    Gaussians,
    Look,
    gates_of,
    gaussians_of,
    looks_of,
)
from nearsight.runs import MeasuredFolder, read_measured, read_record
from nearsight.runs.records import (
    MEASURE_FILE,
    EpochLine,
    IntervalRecord,
    MeasuredModel,
    MeasureRecord,
    ResultRecord,
    RunRecord,
    TrainedRun,
    ValuesRecord,
)
from nearsight.stats import Estimate, wilson_interval

PARTS = ("mean", "low", "high")
NULL_LINES = ("uniform", "box")
RANDOM_INIT = "random initialisation"  # where the weights of a measured model are from
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

    files: MeasuredFolder  # its records as they were read
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
    def path(self) -> Path:
        return self.files.path

    @property
    def record(self) -> RunRecord:
        return self.files.record

    @property
    def measure(self) -> MeasureRecord:
        return self.files.measure

    @property
    def log(self) -> list[EpochLine]:
        """A line per epoch."""
        return [line for line in self.files.log if isinstance(line, EpochLine)]

    @property
    def is_model(self) -> bool:
        return isinstance(self.record, MeasuredModel)

    @property
    def is_untrained(self) -> bool:
        """Whether it is a model at random initialisation, which every label says."""
        record = self.record
        return isinstance(record, MeasuredModel) and record.weights.origin == RANDOM_INIT

    @property
    def trained(self) -> TrainedRun:
        """The record of a run; a model that was only measured has none."""
        assert isinstance(self.record, TrainedRun)
        return self.record

    @property
    def model_name(self) -> str:
        return self.record.model.name

    @property
    def sized_name(self) -> str:
        """With depth and width where the protocol changes those of the name."""
        own = {} if self.is_model else self.trained.protocol["model"]
        words = (("layers", own.get("depth")), ("wide", own.get("width")))
        changed = ", ".join(f"{number} {word}" for word, number in words if number)
        return f"{self.model_name} ({changed})" if changed else self.model_name

    @property
    def architecture(self) -> str:
        """What a model at random initialisation depends on, and its name."""
        own = {} if self.is_model else self.trained.protocol["model"]
        return json.dumps({**own, "name": self.model_name, "weights": None}, sort_keys=True)

    @property
    def protocol(self) -> dict[str, Any]:
        """What tells conditions apart: a run's protocol, a model's name and weights."""
        if isinstance(self.record, TrainedRun):
            return self.record.protocol
        weights = self.record.weights
        origin = f"file {weights.sha256}" if weights.sha256 else weights.origin
        return {"name": self.model_name, "weights": origin}

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Of every layer; a hierarchical model has several."""
        return self.measure.grids

    @property
    def near_kinds(self) -> list[list[NearKind | None]]:
        """What the heads below the 3x3 line are, [layer][head], in the layers that are read."""
        read = self.measure.read
        mads, masses = (self.heads[name].mean for name in ("mad", "self_mass"))
        boxes = [self.null(i)["box_mad"] for i in read]
        return near_kinds([mads[i] for i in read], [masses[i] for i in read], boxes)

    def null(self, layer: int) -> dict[str, float]:
        """The null lines of a layer's grid (layer counted from 0)."""
        return self.measure.null_lines(layer)


def required_metrics() -> list[str]:
    """Return the metrics without which there is no report."""
    return [x.name for x in CATALOGUE if x.required]


def read_run(path: Path) -> Evidence:
    """Return the evidence of a run folder.

    Raises:
        UserError: If the run is not finished or not measured, or one of its files is damaged.
    """
    path = Path(path)
    record = read_record(path)
    if isinstance(record, TrainedRun) and not record.is_finished:
        raise UserError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    return evidence_of(read_measured(path, record))


def evidence_of(files: MeasuredFolder) -> Evidence:
    """Return the evidence of the records of a finished run or measured model."""
    _check_measured(files.path, files.measure)
    path, record, measure = files.path, files.record, files.measure
    known = measure.summary.others
    measured = [x.name for x in shown_in("report") if x.required or f"mean_{x.name}" in known]
    scalars, layers = _numbers(path, measure, measured)
    if isinstance(record, TrainedRun):
        scalars |= _scores(record.outcome)
    _check_nulls(path, measure)
    seed = record.seed if isinstance(record, TrainedRun) else None
    geometry = [(*grid, heads) for grid, heads in zip(measure.grids, measure.num_heads)]
    others, n = [layer.others for layer in measure.layers], measure.num_images
    return Evidence(
        files=files, looks=looks_of(files.log, path), seed=seed, grid=measure.grid,
        gates=[gates_of(x.get("gpsa"), MEASURE_FILE, path) for x in others],
        gaussians=[gaussians_of(x.get("gaussian"), n, MEASURE_FILE, path) for x in others],
        family=(record.data.name, record.data.hash, seed is None, tuple(geometry)),
        scalars=scalars, heads={name: _heads(path, measure, name) for name in measured},
        layers=layers, features=_features(path, measure),
    )  # fmt: skip


def _check_measured(path: Path, measure: MeasureRecord) -> None:
    """A report needs some metrics in the convention its scales are made for."""
    if measure.convention.name != CONVENTION:
        raise UserError(
            f"expected a measurement in the convention {CONVENTION} for a report, got "
            f"{measure.convention.name} in {path}; measure it again with --convention {CONVENTION}"
        )
    known = measure.summary.others
    lacking = [
        name
        for name in required_metrics()
        if f"layer_mean_{name}" not in known and f"mean_{name}" not in known
    ]
    if lacking:
        raise UserError(
            f"expected {', '.join(required_metrics())} for a report, but {path} was measured "
            f"without {', '.join(lacking)}; measure it again with --metrics default"
        )


def _numbers(
    path: Path, measure: MeasureRecord, measured: list[str]
) -> tuple[dict[str, Estimate], dict[str, list[Estimate]]]:
    """Return the numbers of the run, and the means of every layer, of the metrics measured."""
    summary, known = measure.summary, measure.numbers

    def estimate(field: str, entry: IntervalRecord | None) -> Estimate:
        found = MEASURE_FILE.needed(path, f"summary.{field}", entry)
        return Estimate(found.value, found.low, found.high, measure.num_images, "images")

    scalars = {
        x.name: estimate(f"{x.statistic}_{x.metric}", x.entry(known))
        for x in RUN_NUMBERS
        if x.metric in measured
    }
    layers = {}
    for name in measured:
        field = f"summary.layer_mean_{name}"
        entries = MEASURE_FILE.needed(path, field, summary.layer_means(name))
        layers[name] = [estimate(f"layer_mean_{name}", entry) for entry in entries]
        estimate(f"mean_{name}", summary.mean(name))
    return scalars, layers


def _scores(result: ResultRecord) -> dict[str, Estimate]:
    """Accuracy on the test images; older runs have no top-5."""
    shares = {"accuracy": result.test_accuracy, "top5_accuracy": result.test_top5_accuracy}
    total = result.num_test
    return {
        name: Estimate(share, *wilson_interval(share, total), total, "images")
        for name, share in shares.items()
        if share is not None
    }


def _check_nulls(path: Path, measure: MeasureRecord) -> None:
    """Tables and figures take the null lines of every grid as given."""
    wanted = [name for name in required_metrics() if metric(name).nulls]
    places = [(measure.null, "null")]
    places += [(x.null, f"layers[{i}].null") for i, x in enumerate(measure.layers) if x.null]
    for null, where in places:
        for name in (f"{line}_{of}" for line in NULL_LINES for of in wanted):
            MEASURE_FILE.needed(path, f"{where}.{name}", null.lines.get(name))


def _heads(path: Path, measure: MeasureRecord, name: str) -> Heads:
    """One metric of every head; every layer has as many as it says."""
    found: dict[str, list[list[float]]] = {part: [] for part in PARTS}
    if len(measure.layers) != len(measure.num_heads):
        told = f"should have {len(measure.layers)} numbers, one for each layer"
        raise MEASURE_FILE.damaged(path, "num_heads", told)
    for number, (layer, num_heads) in enumerate(zip(measure.layers, measure.num_heads)):
        field = f"layers[{number}].{name}"
        entry = MEASURE_FILE.needed(path, field, layer.metrics.get(name))
        for part in PARTS:
            values = getattr(entry, part)
            if not isinstance(values, list) or len(values) != num_heads:
                told = f"should be a list of {num_heads} numbers, one for each head"
                raise MEASURE_FILE.damaged(path, f"{field}.{part}", told)
            found[part].append(values)
    return Heads(**found)


def _features(path: Path, measure: MeasureRecord) -> dict[str, list[Estimate | None]]:
    """Metrics of a layer's output, where all layers have them; None: not available in a layer."""
    return {
        x.name: [
            _feature(path, layer.metrics.get(x.name), f"layers[{number}].{x.name}", measure)
            for number, layer in enumerate(measure.layers)
        ]
        for x in CATALOGUE
        if x.per == "layer" and all(x.name in layer.others for layer in measure.layers)
    }


def _feature(
    path: Path, entry: ValuesRecord | None, field: str, measure: MeasureRecord
) -> Estimate | None:
    values = MEASURE_FILE.needed(path, field, entry)
    if values.mean is None:
        return None
    numbers: dict[str, float] = {}
    for part, number in zip(PARTS, (values.mean, values.low, values.high)):
        if not isinstance(number, float):
            raise MEASURE_FILE.damaged(path, f"{field}.{part}", "should be a number")
        numbers[part] = number
    mean, low, high = numbers.values()
    return Estimate(mean, low, high, measure.num_images, "images")
