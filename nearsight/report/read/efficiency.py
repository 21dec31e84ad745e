"""Collect how well models learn from fractions of the data (sample efficiency; ConViT, table 2).

A series is a set of conditions that differ only in the fraction and in the number of epochs that
goes with it. Its gain at a fraction is how much its accuracy exceeds that of the plain model, in
percent of the plain model's accuracy, paired by seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from nearsight.protocol import whole_name
from nearsight.report.read.conditions import ConditionRuns, Family
from nearsight.report.read.evidence import Evidence
from nearsight.stats import Estimate, over_seeds

SCHEDULE = ("epochs", "patience", "warmup_epochs", "measure_every")  # scaled with the fraction
SCORES = {"accuracy": "top-1 accuracy", "top5_accuracy": "top-5 accuracy"}  # of the test set


@dataclass(frozen=True)
class Series:
    """One model and protocol on several fractions of the data, and the plain model's conditions."""

    label: str
    points: dict[float, ConditionRuns]  # by fraction, ascending
    plain: dict[float, ConditionRuns]  # the same of the plain model; empty for the plain series

    @property
    def condition(self) -> ConditionRuns:
        """The condition with the most data, which gives the series its colour and its mark."""
        return self.points[max(self.points)]

    def gains(self, score: str = "accuracy") -> dict[float, Estimate]:
        """Return the gain by fraction, in percent of the plain model's score, paired by seed."""
        found = {
            fraction: relative_gain(condition, self.plain[fraction], score)
            for fraction, condition in self.points.items()
            if fraction in self.plain
        }
        return {fraction: gain for fraction, gain in found.items() if gain is not None}


def fraction_of(run: Evidence) -> float:
    """Return the fraction of the data that a run trained on (1 in files without the setting)."""
    return float(run.protocol["data"].get("fraction", 1.0))


def sample_series(family: Family) -> list[Series]:
    """Return the series of a family; none if no model was trained on several fractions."""
    if family.is_models:
        return []
    groups: dict[str, dict[float, ConditionRuns]] = {}
    for condition in family.conditions:
        run = condition.runs[0]
        groups.setdefault(_same_but_fraction(run), {})[fraction_of(run)] = condition
    if all(len(points) < 2 for points in groups.values()):
        return []
    found = [dict(sorted(points.items())) for points in groups.values()]
    plain = next((points for points in found if _is_plain(points)), {})
    return [
        Series(label, points, {} if points is plain else plain)
        for label, points in zip(_labels(found), found, strict=True)
    ]


def _same_but_fraction(run: Evidence) -> str:
    """Return a key that is equal for runs that differ only in the fraction and the schedule."""
    protocol = {key: value for key, value in run.protocol.items() if key not in SCHEDULE}
    protocol["name"] = whole_name(protocol["name"])
    protocol["data"] = {key: x for key, x in protocol["data"].items() if key != "fraction"}
    rates = protocol["optimizer"].items()
    protocol["optimizer"] = {key: x for key, x in rates if key != "step_epochs"}
    return json.dumps(protocol, sort_keys=True)


def _is_plain(points: dict[float, ConditionRuns]) -> bool:
    """Tell whether these models have no part that learns how local to be."""
    return not next(iter(points.values())).runs[0].learned


def _labels(found: list[dict[float, ConditionRuns]]) -> list[str]:
    """Name series by their models, or by their conditions if two have the same model."""
    firsts = [next(iter(points.values())) for points in found]
    models = [condition.runs[0].model_name for condition in firsts]
    if len(set(models)) == len(models):
        return models
    return [whole_name(max(points.items())[1].label) for points in found]


def relative_gain(one: ConditionRuns, plain: ConditionRuns, score: str) -> Estimate | None:
    """Estimate 100 (one - plain) / plain over shared seeds; None with fewer than two."""
    if not (one.has(score) and plain.has(score)):
        return None
    mine = {run.seed: run.scalars[score].value for run in one.runs}
    theirs = {run.seed: run.scalars[score].value for run in plain.runs}
    shared = [seed for seed in mine if theirs.get(seed)]
    if len(shared) < 2:
        return None
    return over_seeds([100 * (mine[seed] - theirs[seed]) / theirs[seed] for seed in shared])


HEADER = (
    "series", "fraction", "num_train", "epochs", "num_seeds", "score", "value", "low", "high",
    "gain_percent", "gain_low", "gain_high",
)  # fmt: skip


def efficiency_rows(series: list[Series]) -> list[tuple[str | int | float, ...]]:
    """Return a row for every series, fraction and score, in the columns of ``HEADER``."""
    rows: list[tuple[str | int | float, ...]] = []
    for each in series:
        for fraction, condition in each.points.items():
            run = condition.runs[0]
            num_train = run.trained.data.num_train
            facts = (each.label, fraction, num_train, run.protocol["epochs"], condition.num_seeds)
            for score in filter(condition.has, SCORES):
                x, gain = condition.estimate(score), each.gains(score).get(fraction)
                gained = (gain.value, gain.low, gain.high) if gain else ("", "", "")
                rows.append((*facts, score, x.value, x.low, x.high, *gained))
    return rows
