"""Sample efficiency: one model and recipe on several fractions of the data (ConViT's table 2).

A series is what differs in nothing but the fraction and the epochs that go with it. Its gain at a
fraction is the accuracy it has more than the plain model, relative to that model's, paired by seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from nearsight.protocol.fraction import whole_name
from nearsight.report.read.conditions import Condition, Family
from nearsight.report.read.evidence import Evidence
from nearsight.report.write.tables import Row, interval_text, number_text
from nearsight.stats.estimate import Estimate, over_seeds

SCHEDULE = ("epochs", "patience", "warmup_epochs", "measure_every")  # follow the fraction
HEADER = (
    "series", "fraction", "num_train", "epochs", "num_seeds", "score", "value", "low", "high",
    "gain_percent", "gain_low", "gain_high",
)  # fmt: skip
SCORES = {"accuracy": "top-1 accuracy", "top5_accuracy": "top-5 accuracy"}  # of the test set


@dataclass(frozen=True)
class Series:
    """Conditions by fraction, ascending; ``plain`` are those of the plain model beside them."""

    label: str
    points: dict[float, Condition]
    plain: dict[float, Condition]  # empty for the plain series itself

    @property
    def condition(self) -> Condition:
        """Whose colour and mark stand for the series: the one with most data."""
        return self.points[max(self.points)]

    def gains(self, score: str = "accuracy") -> dict[float, Estimate]:
        """By fraction, in percent of the plain model's score; paired by seed."""
        found = {
            fraction: relative_gain(condition, self.plain[fraction], score)
            for fraction, condition in self.points.items()
            if fraction in self.plain
        }
        return {fraction: gain for fraction, gain in found.items() if gain is not None}


def fraction_of(run: Evidence) -> float:
    """Runs from before there were fractions have all data."""
    return float(run.protocol["data"].get("fraction", 1.0))


def sample_series(family: Family) -> list[Series]:
    """The series of a family; none if no model was trained on several fractions."""
    if family.is_models:
        return []
    groups: dict[str, dict[float, Condition]] = {}
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
    protocol = {key: value for key, value in run.protocol.items() if key not in SCHEDULE}
    protocol["name"] = whole_name(protocol["name"])
    protocol["data"] = {key: x for key, x in protocol["data"].items() if key != "fraction"}
    return json.dumps(protocol, sort_keys=True)


def _is_plain(points: dict[float, Condition]) -> bool:
    """Whether these models have neither GPSA nor GAug."""
    run = next(iter(points.values())).runs[0]
    return not any(run.gates) and not any(run.gaussians)


def _labels(found: list[dict[float, Condition]]) -> list[str]:
    """Models where the protocol is one, else what the conditions are called."""
    firsts = [next(iter(points.values())) for points in found]
    models = [condition.runs[0].model_name for condition in firsts]
    if len(set(models)) == len(models):
        return models
    return [whole_name(max(points.items())[1].label) for points in found]


def relative_gain(one: Condition, plain: Condition, score: str) -> Estimate | None:
    """100 (one - plain) / plain over shared seeds; None with fewer than two."""
    if not (one.has(score) and plain.has(score)):
        return None
    mine = {run.seed: run.scalars[score].value for run in one.runs}
    theirs = {run.seed: run.scalars[score].value for run in plain.runs}
    shared = [seed for seed in mine if theirs.get(seed)]
    if len(shared) < 2:
        return None
    return over_seeds([100 * (mine[seed] - theirs[seed]) / theirs[seed] for seed in shared])


def efficiency_rows(series: list[Series]) -> list[Row]:
    """A row per series, fraction and score, for HEADER."""
    rows: list[Row] = []
    for each in series:
        for fraction, condition in each.points.items():
            run = condition.runs[0]
            num_train = run.record["data"]["num_train"]
            facts = (each.label, fraction, num_train, run.protocol["epochs"], condition.num_seeds)
            for score in filter(condition.has, SCORES):
                x, gain = condition.estimate(score), each.gains(score).get(fraction)
                gained = (gain.value, gain.low, gain.high) if gain else ("", "", "")
                rows.append((*facts, score, x.value, x.low, x.high, *gained))
    return rows


def efficiency_tables(family: Family) -> str:
    """Table 2 of the ConViT paper: scores of every series by fraction, and the gains, as HTML."""
    series = sample_series(family)
    conditions = [condition for each in series for condition in each.points.values()]
    return "".join(
        _table(series, score)
        for score in SCORES
        if series and all(x.has(score) for x in conditions)
    )


def _table(series: list[Series], score: str) -> str:
    head = "".join(
        f"<th>{escape(each.label)}</th>" + "<th>gain</th>" * bool(each.gains(score))
        for each in series
    )
    body = "".join(
        f'<tr><th scope="row">{100 * fraction:g} % of the data</th>'
        + "".join(_cells(each, fraction, score) for each in series)
        + "</tr>"
        for fraction in sorted({x for each in series for x in each.points})
    )
    return (
        f'<table class="summary"><thead><tr><th>{SCORES[score]}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _cells(each: Series, fraction: float, score: str) -> str:
    """A series at a fraction: its score and, where the series has gains, the gain."""
    condition, gains = each.points.get(fraction), each.gains(score)
    cells = _cell(each.label, condition.estimate(score) if condition else None, share=True)
    return cells + (_cell("gain", gains.get(fraction), share=False) if gains else "")


def _cell(label: str, x: Estimate | None, share: bool) -> str:
    start = f'<td data-label="{escape(label)}">'
    if x is None:
        return f"{start}–</td>"
    value = number_text(x.value, percent=True) if share else f"{x.value:+.1f} %"
    interval = interval_text(x, percent=True) if share else f"{x.low:+.1f} to {x.high:+.1f} %"
    return (
        f'{start}<span>{value}</span><span class="interval">{interval}</span>'
        f'<span class="interval">n = {x.n:,} {x.over}</span></td>'
    )
