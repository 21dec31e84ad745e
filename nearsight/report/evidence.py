"""What a report knows of a run: its files, checked once, as plain numbers.

Only run.json, train.jsonl and measure.json are read. A file that lacks something is named here, so
that tables and figures can rely on what they get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.run import LOG, MEASURE, read_json, read_lines, read_record

NORMAL_QUANTILE = 1.959963984540054  # 97.5 % of a standard normal


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, and over what (``images`` or ``seeds``) and how many."""

    value: float
    low: float
    high: float
    n: int
    over: str


@dataclass(frozen=True)
class Heads:
    """One metric of every head: [layer][head]."""

    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]


@dataclass(frozen=True)
class Evidence:
    """One measured run."""

    path: Path
    record: dict[str, Any]
    measure: dict[str, Any]
    log: list[dict[str, Any]]
    scalars: dict[str, Estimate]  # accuracy, min_mad, layer1_mad, mean_mad, entropy, self_mass
    heads: dict[str, Heads]  # mad, entropy, self_mass
    layers: dict[str, list[Estimate]]  # mad, entropy, self_mass: mean over a layer's heads

    @property
    def seed(self) -> int:
        return int(self.record["seed"])

    @property
    def protocol(self) -> dict[str, Any]:
        return self.record["protocol"]

    @property
    def grid(self) -> tuple[int, int]:
        rows, cols = self.measure["grid"]
        return rows, cols

    @property
    def family(self) -> tuple[Any, ...]:
        """Runs of one family can share a figure: same data, model and geometry."""
        data, sizes = self.record["data"], tuple(self.measure["num_heads"])
        return data["name"], data["hash"], self.record["model"]["name"], self.grid, sizes


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share of n (Wilson 1927).

    >>> [round(bound, 4) for bound in wilson_interval(0.5, 100)]
    [0.4038, 0.5962]
    """
    z = NORMAL_QUANTILE
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def read_run(path: Path) -> Evidence:
    """The evidence of a run folder; ValueError says what is missing and what to do."""
    path = Path(path)
    record = read_record(path)
    if record.get("status") != "finished":
        raise ValueError(
            f"expected a finished run, but training in {path} has not finished; "
            "start its train command again, it continues where it stopped"
        )
    if not (path / MEASURE).is_file():
        raise ValueError(f"{path} has no {MEASURE}: run nearsight measure {path} first")
    measure = read_json(path / MEASURE)
    log = read_lines(path / LOG)
    try:
        return _evidence(path, record, measure, log)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"run.json, {LOG} or {MEASURE} in {path} is damaged ({what}); "
            f"run nearsight measure {path} again"
        ) from error


def _evidence(
    path: Path, record: dict[str, Any], measure: dict[str, Any], log: list[dict[str, Any]]
) -> Evidence:
    n, summary, result = int(measure["num_images"]), measure["summary"], record["result"]

    def estimate(entry: dict[str, Any]) -> Estimate:
        return Estimate(
            float(entry["value"]), float(entry["low"]), float(entry["high"]), n, "images"
        )

    accuracy, num_test = float(result["test_accuracy"]), int(result["num_test"])
    scalars = {
        "accuracy": Estimate(accuracy, *wilson_interval(accuracy, num_test), num_test, "images"),
        "min_mad": estimate(summary["min_mad"]),
        "layer1_mad": estimate(summary["layer_mean_mad"][0]),
        "mean_mad": estimate(summary["mean_mad"]),
        "entropy": estimate(summary["mean_entropy"]),
        "self_mass": estimate(summary["mean_self_mass"]),
    }
    heads = {
        metric: Heads(*([layer[metric][part] for layer in measure["layers"]] for part in PARTS))
        for metric in METRICS
    }
    sizes = [len(layer) for metric in heads.values() for layer in metric.mean]
    if sizes != list(measure["num_heads"]) * len(METRICS):
        raise ValueError("its heads are not as many as it says")
    layers = {
        metric: [estimate(entry) for entry in summary[f"layer_mean_{metric}"]] for metric in METRICS
    }
    for key in ("uniform_mad", "box_mad", "uniform_entropy", "box_entropy"):
        float(measure["null"][key])
    for line in log:
        float(line["epoch"]), float(line["train_loss"]), float(line["validation_accuracy"])
    return Evidence(path, record, measure, log, scalars, heads, layers)


PARTS = ("mean", "low", "high")
METRICS = ("mad", "entropy", "self_mass")
