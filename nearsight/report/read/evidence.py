"""Read the files of one run or measured model and check them for a report.

Only run.json, train.jsonl and measure.json are read. The types of these files allow for older files
that lack some numbers. This module checks that all the numbers are there that a report needs, so
that tables and figures can rely on them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
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
from nearsight.report.read.logged_looks import Look, looks_of
from nearsight.report.read.part_records import Learned, learned_in_measurement
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
RANDOM_INIT = "random initialisation"  # the origin of the weights of an untrained model
CONVENTION = "paper"  # the convention for which the figures and their fixed scales are made


@dataclass(frozen=True)
class Heads:
    """The values of one metric for every head, as [layer][head], with their intervals."""

    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]


@dataclass(frozen=True)
class Evidence:
    """A measured run, or a model that was measured without being trained here."""

    files: MeasuredFolder  # its records as they were read
    looks: list[Look]  # measurements of the attention while the run trained
    seed: int | None  # None for a model that was not trained here
    grid: tuple[int, int]  # of the first layer
    family: tuple[Any, ...]  # data and geometry; runs with the same value share figures
    scalars: dict[str, Estimate]  # the numbers of a run, by their names in the catalogue
    heads: dict[str, Heads]  # by metric, in the order of the catalogue
    layers: dict[str, list[Estimate]]  # mean over a layer's heads, by metric
    features: dict[str, list[Estimate | None]]  # metrics of a whole layer, where measured
    learned: Learned  # what the parts of the model have learned

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.files.path

    @property
    def record(self) -> RunRecord:
        """The contents of run.json."""
        return self.files.record

    @property
    def measure(self) -> MeasureRecord:
        """The contents of measure.json."""
        return self.files.measure

    @property
    def log(self) -> list[EpochLine]:
        """The lines of train.jsonl that report an epoch."""
        return [line for line in self.files.log if isinstance(line, EpochLine)]

    @property
    def is_model(self) -> bool:
        """Whether it is a model that was measured without being trained here."""
        return isinstance(self.record, MeasuredModel)

    @property
    def is_untrained(self) -> bool:
        """Whether it is a model at random initialisation."""
        record = self.record
        return isinstance(record, MeasuredModel) and record.weights.origin == RANDOM_INIT

    @property
    def trained(self) -> TrainedRun:
        """The contents of run.json of a run that was trained here; not for measured models."""
        assert isinstance(self.record, TrainedRun)
        return self.record

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.record.model.name

    @property
    def sized_name(self) -> str:
        """The name of the model, with depth and width where the protocol changes them."""
        own = {} if self.is_model else self.trained.protocol["model"]
        words = (("layers", own.get("depth")), ("wide", own.get("width")))
        changed = ", ".join(f"{number} {word}" for word, number in words if number)
        return f"{self.model_name} ({changed})" if changed else self.model_name

    @property
    def architecture(self) -> str:
        """A key that two models share if they are the same before they are trained."""
        own = {} if self.is_model else self.trained.protocol["model"]
        return json.dumps({**own, "name": self.model_name, "weights": None}, sort_keys=True)

    @property
    def protocol(self) -> dict[str, Any]:
        """What makes it a condition: the protocol of a run, or the name and weights of a model."""
        if isinstance(self.record, TrainedRun):
            return self.record.protocol
        weights = self.record.weights
        origin = f"file {weights.sha256}" if weights.sha256 else weights.origin
        return {"name": self.model_name, "weights": origin}

    @property
    def grids(self) -> list[tuple[int, int]]:
        """The grid of every layer; a hierarchical model has several."""
        return self.measure.grids

    @property
    def near_kinds(self) -> list[list[NearKind | None]]:
        """The kind of every head below the 3x3 line, as [layer][head], without unread layers."""
        read = self.measure.read
        mads, masses = (self.heads[name].mean for name in ("mad", "self_mass"))
        boxes = [self.null(i)["box_mad"] for i in read]
        return near_kinds([mads[i] for i in read], [masses[i] for i in read], boxes)

    def null(self, layer: int) -> dict[str, float]:
        """Return the null lines of the grid of a layer (counted from 0)."""
        return self.measure.null_lines(layer)


def required_metrics() -> list[str]:
    """Return the names of the metrics that every report needs."""
    return [x.name for x in CATALOGUE if x.required]


def read_run(path: Path) -> Evidence:
    """Read a run folder.

    Raises:
        UserError: If the run is not finished or not measured, or one of its files is damaged.
    """
    path = Path(path)
    record = read_record(path)
    if isinstance(record, TrainedRun) and not record.is_finished:
        raise UserError(
            f"the training in {path} has not finished; run its train command again, which "
            "continues where it stopped"
        )
    return evidence_of(read_measured(path, record))


def evidence_of(files: MeasuredFolder) -> Evidence:
    """Check the records of a finished run or measured model and collect their numbers.

    Raises:
        UserError: If the measurement lacks what a report needs, or has another convention.
    """
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
    return Evidence(
        files=files, looks=looks_of(files.log, path), seed=seed, grid=measure.grid,
        learned=learned_in_measurement(measure, path),
        family=(record.data.name, record.data.hash, seed is None, tuple(geometry)),
        scalars=scalars, heads={name: _heads(path, measure, name) for name in measured},
        layers=layers, features=_features(path, measure),
    )  # fmt: skip


def _check_measured(path: Path, measure: MeasureRecord) -> None:
    """Check that the required metrics were measured, in the convention that figures are made for.

    Raises:
        UserError: If they were not.
    """
    if measure.convention.name != CONVENTION:
        raise UserError(
            f"{path} was measured in the convention {measure.convention.name}, but a report needs "
            f"{CONVENTION}; measure it again with --convention {CONVENTION}"
        )
    known = measure.summary.others
    lacking = [
        name
        for name in required_metrics()
        if f"layer_mean_{name}" not in known and f"mean_{name}" not in known
    ]
    if lacking:
        raise UserError(
            f"{path} was measured without {', '.join(lacking)}, which a report needs; measure it "
            "again with --metrics default"
        )


def _numbers(
    path: Path, measure: MeasureRecord, measured: list[str]
) -> tuple[dict[str, Estimate], dict[str, list[Estimate]]]:
    """Return the numbers of the run, and the mean of every measured metric in every layer."""
    summary, known = measure.summary, measure.numbers

    def estimate(field: str, entry: IntervalRecord | None) -> Estimate:
        found = MEASURE_FILE.needed(path, f"summary.{field}", entry)
        if not isinstance(found, IntervalRecord):
            raise MEASURE_FILE.damaged(path, f"summary.{field}", "should have value, low and high")
        if not all(map(math.isfinite, (found.value, found.low, found.high))):
            raise MEASURE_FILE.damaged(path, f"summary.{field}", "should have finite numbers")
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
    """Return the accuracies on the test images.

    Older runs have no top-5 accuracy, runs without labels only that of k-NN.
    """
    shares = {
        "accuracy": result.test_accuracy,
        "top5_accuracy": result.test_top5_accuracy,
        "test_knn_accuracy": result.test_knn_accuracy,
    }
    total = result.num_test
    return {
        name: Estimate(share, *wilson_interval(share, total), total, "images")
        for name, share in shares.items()
        if share is not None
    }


def _check_nulls(path: Path, measure: MeasureRecord) -> None:
    """Check that every grid has its null lines."""
    wanted = [name for name in required_metrics() if metric(name).nulls]
    places = [(measure.null, "null")]
    places += [(x.null, f"layers[{i}].null") for i, x in enumerate(measure.layers) if x.null]
    for null, where in places:
        for name in (f"{line}_{of}" for line in NULL_LINES for of in wanted):
            MEASURE_FILE.needed(path, f"{where}.{name}", null.lines.get(name))


def _heads(path: Path, measure: MeasureRecord, name: str) -> Heads:
    """Return a metric of every head, and check that every layer has a value for each head."""
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
            _check_possible(path, f"{field}.{part}", values, name)
            found[part].append(values)
    return Heads(**found)


def _check_possible(path: Path, field: str, values: Sequence[float], name: str) -> None:
    """Check that no value of a metric is impossible; only the ends of intervals may be.

    Raises:
        UserError: If a value is not finite, or a mean is outside the limits of the metric.
    """
    wrong = next((x for x in values if not math.isfinite(x)), None)
    if wrong is None and field.endswith(".mean"):
        wrong = metric(name).outside(min(values), max(values)) if values else None
    if wrong is not None:
        low, high = metric(name).limits
        told = f"should be a number from {low:g} to {high:g}, but it is {wrong:g}"
        raise MEASURE_FILE.damaged(path, field, told)


def _features(path: Path, measure: MeasureRecord) -> dict[str, list[Estimate | None]]:
    """Return the metrics of layer outputs; None for a layer in which one is not available."""
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
