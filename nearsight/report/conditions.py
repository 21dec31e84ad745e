"""Runs grouped into conditions, and what several seeds say together.

A condition is one protocol on one data set with one model; its runs differ by seed. It has one
colour and one shape wherever it appears: circles with CutMix, triangles without. A model that was
measured without being trained here is a condition of its own, drawn with squares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from nearsight.report.evidence import Estimate, Evidence, read_run

VERMILION, BLUE, GREEN, PURPLE = "#d55e00", "#0072b2", "#009e73", "#cc79a7"
ORANGE, SKY = "#e69f00", "#56b4e9"
COLOURS = {
    "baseline": VERMILION,
    "modern": BLUE,
    "baseline+cutmix": GREEN,
    "modern-cutmix": PURPLE,
    "baseline+autoaugment": ORANGE,
    "modern-autoaugment": ORANGE,
    "baseline+labelsmoothing": SKY,
    "modern-labelsmoothing": SKY,
}
OTHERS = (GREEN, PURPLE, ORANGE, SKY, BLUE, VERMILION)  # protocols that are no preset, in turn


@dataclass(frozen=True)
class Condition:
    """Runs of one protocol, sorted by seed."""

    label: str
    colour: str
    runs: tuple[Evidence, ...]

    @property
    def has_cutmix(self) -> bool:
        return self.runs[0].protocol.get("cutmix") is not None

    @property
    def is_model(self) -> bool:
        return self.runs[0].is_model

    @property
    def marker(self) -> str:
        return "s" if self.is_model else "o" if self.has_cutmix else "^"

    @property
    def line(self) -> Literal["solid", "dashed"]:
        return "solid" if self.has_cutmix or self.is_model else "dashed"

    @property
    def num_seeds(self) -> int:
        return len(self.runs)

    def has(self, scalar: str) -> bool:
        """Whether there is such a number; a model that was only measured has no accuracy."""
        return all(scalar in run.scalars for run in self.runs)

    def estimate(self, scalar: str) -> Estimate:
        """Over seeds where there are several, over images otherwise."""
        if self.num_seeds == 1:
            return self.runs[0].scalars[scalar]
        return over_seeds([run.scalars[scalar].value for run in self.runs])

    def layer_estimate(self, metric: str, layer: int) -> Estimate:
        """The same for the mean over a layer's heads (layer counted from 0)."""
        if self.num_seeds == 1:
            return self.runs[0].layers[metric][layer]
        return over_seeds([run.layers[metric][layer].value for run in self.runs])

    def feature_estimate(self, metric: str, layer: int) -> Estimate | None:
        """The same for a metric of a layer's output; None where some run has no such number."""
        found = [
            run.features[metric][layer] if metric in run.features else None for run in self.runs
        ]
        known = [x for x in found if x is not None]
        if len(known) < self.num_seeds:
            return None
        return known[0] if self.num_seeds == 1 else over_seeds([x.value for x in known])

    def sorted_heads(self, metric: str, layer: int) -> list[Estimate]:
        """Heads of a layer in ascending order of the metric; the k-th head over seeds."""
        ranked = []
        for run in self.runs:
            heads = run.heads[metric]
            parts = zip(heads.mean[layer], heads.low[layer], heads.high[layer])
            ranked.append(sorted(parts))
        if self.num_seeds == 1:
            n = int(self.runs[0].measure["num_images"])
            return [Estimate(*head, n, "images") for head in ranked[0]]
        return [over_seeds([head[0] for head in rank]) for rank in zip(*ranked)]


@dataclass(frozen=True)
class Family:
    """Conditions that share data, model and geometry, hence figures."""

    conditions: tuple[Condition, ...]

    @property
    def first(self) -> Evidence:
        return self.conditions[0].runs[0]

    @property
    def is_models(self) -> bool:
        """Models that were only measured; they are no family with runs."""
        return self.first.is_model

    @property
    def name(self) -> str:
        record = self.first.record
        names = dict.fromkeys(c.runs[0].record["model"]["name"] for c in self.conditions)
        which = next(iter(names)) if len(names) == 1 else f"{len(names)} models"
        return f"{which} on {record['data']['name']}, {self.grids_text} patches"

    @property
    def grids_text(self) -> str:
        return ", ".join(f"{rows}x{cols}" for rows, cols in dict.fromkeys(self.first.grids))

    @property
    def num_layers(self) -> int:
        return int(self.first.measure["num_layers"])

    @property
    def null(self) -> dict[str, float]:
        return self.first.measure["null"]

    @property
    def seeds_text(self) -> str:
        counts = sorted({condition.num_seeds for condition in self.conditions})
        return "1 seed" if counts == [1] else f"{'–'.join(map(str, counts))} seeds"

    @property
    def images_text(self) -> str:
        counts = {run.measure["num_images"] for c in self.conditions for run in c.runs}
        kind = "images" if self.is_models else "test images"
        return f"{'–'.join(f'{n:,}' for n in sorted(counts))} {kind}"

    @property
    def scope_text(self) -> str:
        """What a figure's numbers are over."""
        return self.images_text if self.is_models else f"{self.images_text} · {self.seeds_text}"


def over_seeds(values: Sequence[float]) -> Estimate:
    """Mean and 95 % t-interval over seeds.

    >>> estimate = over_seeds([1.0, 2.0, 3.0])
    >>> round(estimate.low, 4), estimate.value, round(estimate.high, 4)
    (-0.4841, 2.0, 4.4841)
    """
    from scipy.stats import t

    n = len(values)
    mean = math.fsum(values) / n
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n, "seeds")


def paired_difference(one: Condition, other: Condition, scalar: str) -> Estimate | None:
    """one - other over the seeds both have; None with fewer than two."""
    if not (one.has(scalar) and other.has(scalar)):
        return None
    mine = {run.seed: run.scalars[scalar].value for run in one.runs}
    yours = {run.seed: run.scalars[scalar].value for run in other.runs}
    shared = sorted(seed for seed in mine.keys() & yours.keys() if seed is not None)
    if len(shared) < 2:
        return None
    return over_seeds([mine[seed] - yours[seed] for seed in shared])


def read_families(paths: Sequence[Path]) -> list[Family]:
    """All runs given, grouped; the order of the command line is kept."""
    unique = list(dict.fromkeys(Path(path).resolve() for path in paths))
    if not unique:
        raise ValueError("expected at least one run folder, got none")
    given = {Path(path).resolve(): Path(path) for path in paths}
    families: dict[tuple, dict[str, list[Evidence]]] = {}
    for path in unique:
        run = read_run(given[path])
        same = json.dumps(run.protocol, sort_keys=True)
        families.setdefault(run.family, {}).setdefault(same, []).append(run)
    return [Family(_conditions(list(groups.values()))) for groups in families.values()]


def _conditions(groups: list[list[Evidence]]) -> tuple[Condition, ...]:
    conditions: list[Condition] = []
    others = 0
    for runs in groups:
        runs = sorted(runs, key=lambda run: run.seed or 0)
        for first, second in pairwise(runs):
            if first.seed == second.seed:
                what = "measurement per model" if first.is_model else "run per protocol and seed"
                raise ValueError(
                    f"expected one {what}, got {first.path} and {second.path}; give one of them"
                )
        name = runs[0].protocol["name"]
        colour = COLOURS.get(name.replace("colorjitter", "autoaugment"))
        if colour is None or any(c.colour == colour and c.label == name for c in conditions):
            colour = OTHERS[others % len(OTHERS)]
            others += 1
        conditions.append(Condition(name, colour, tuple(runs)))
    return tuple(_distinct(conditions))


def _distinct(conditions: list[Condition]) -> list[Condition]:
    """Conditions of the same name are told apart by their settings, models by their folders."""
    labels = [condition.label for condition in conditions]
    distinct = []
    for condition in conditions:
        twins = [c for c in conditions if c.label == condition.label]
        if labels.count(condition.label) > 1 and condition.is_model:
            condition = replace(condition, label=condition.runs[0].path.resolve().name)
        elif labels.count(condition.label) > 1:
            settings = [flat_settings(twin.runs[0].protocol) for twin in twins]
            keys = sorted({key for each in settings for key in each})
            mine = flat_settings(condition.runs[0].protocol)
            differing = [k for k in keys if len({str(each.get(k)) for each in settings}) > 1]
            text = ", ".join(f"{key}={mine.get(key)}" for key in differing)
            condition = replace(condition, label=f"{condition.label} ({text})")
        distinct.append(condition)
    return distinct


def flat_settings(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted path.

    >>> flat_settings({"optimizer": {"lr": 0.1}, "cutmix": None})
    {'optimizer.lr': 0.1, 'cutmix': None}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flat_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
