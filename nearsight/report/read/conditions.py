"""Conditions and families of runs, and estimates over their seeds.

A condition is one protocol on one data set with one model; its runs differ by seed. It has one
colour and one shape wherever it appears: circles with CutMix, triangles without. A model that was
measured without being trained here is a condition of its own, drawn with squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nearsight.measure.catalogue import NEAR_KINDS, Metric, NearKind, metric
from nearsight.protocol import spoken_name
from nearsight.report.read.evidence import Evidence
from nearsight.report.read.logged_looks import Look
from nearsight.stats import Estimate, over_seeds, paired_differences


@dataclass(frozen=True)
class ConditionRuns:
    """Runs of one protocol, sorted by seed."""

    label: str
    colour: str
    runs: tuple[Evidence, ...]

    @property
    def has_cutmix(self) -> bool:
        """Whether its protocol uses CutMix."""
        return self.runs[0].protocol.get("cutmix") is not None

    @property
    def is_model(self) -> bool:
        """Whether it is a model that was measured without being trained here."""
        return self.runs[0].is_model

    @property
    def min_mad_method(self) -> str:
        """The method of the interval of min MAD over images, as measure.json names it."""
        least = self.runs[0].measure.summary.smallest("mad")
        return (least and least.method) or "method not recorded"

    @property
    def marker(self) -> str:
        """The marker of its points in matplotlib: a square, a circle or a triangle."""
        return "s" if self.is_model else "o" if self.has_cutmix else "^"

    @property
    def line(self) -> Literal["solid", "dashed"]:
        """The style of its lines: dashed without CutMix."""
        return "solid" if self.has_cutmix or self.is_model else "dashed"

    @property
    def num_seeds(self) -> int:
        """The number of its runs; 1 for a measured model."""
        return len(self.runs)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that all its runs have, in the order of the catalogue."""
        names = self.runs[0].heads
        return [metric(name) for name in names if all(name in run.heads for run in self.runs)]

    @property
    def unread(self) -> list[int]:
        """The layers (counted from 0) that are unread in all its runs."""
        first, *others = (set(run.measure.unread) for run in self.runs)
        return sorted(first.intersection(*others))

    def near_heads(self, kind: NearKind) -> int:
        """Count the heads of this kind below the 3x3 line in all runs; skip unread layers."""
        return sum(layer.count(kind) for run in self.runs for layer in run.near_kinds)

    @property
    def near_text(self) -> str:
        """How many heads are below the 3x3 line, by kind, and how many heads there are."""
        total = sum(run.measure.num_heads[i] for run in self.runs for i in run.measure.read)
        counts = [f"{self.near_heads(kind)} {kind}" for kind in NEAR_KINDS]
        return f"{' and '.join(counts)} of {total}"

    def has(self, scalar: str) -> bool:
        """Tell whether all its runs have a number. A measured model, for one, has no accuracy."""
        return all(scalar in run.scalars for run in self.runs)

    def estimate(self, scalar: str) -> Estimate:
        """Estimate a number of its runs: over seeds if there are several, else over images."""
        if self.num_seeds == 1:
            return self.runs[0].scalars[scalar]
        return over_seeds([run.scalars[scalar].value for run in self.runs])

    def layer_estimate(self, metric: str, layer: int) -> Estimate:
        """Estimate the mean of a metric over the heads of a layer (counted from 0).

        As in `estimate`, the interval is over seeds if there are several, else over images.
        """
        if self.num_seeds == 1:
            return self.runs[0].layers[metric][layer]
        return over_seeds([run.layers[metric][layer].value for run in self.runs])

    def feature_estimate(self, metric: str, layer: int) -> Estimate | None:
        """Estimate a metric of a layer's output; None if some run does not have it."""
        found = [
            run.features[metric][layer] if metric in run.features else None for run in self.runs
        ]
        known = [x for x in found if x is not None]
        if len(known) < self.num_seeds:
            return None
        return known[0] if self.num_seeds == 1 else over_seeds([x.value for x in known])

    @property
    def looks(self) -> dict[int, list[Look]]:
        """The looks of all runs, by epoch, for the epochs in which every run has a look."""
        of_runs = [{look.epoch: look for look in run.looks} for run in self.runs]
        return {
            epoch: [looks[epoch] for looks in of_runs]
            for epoch in of_runs[0]
            if all(epoch in looks for looks in of_runs)
        }

    def sorted_heads(self, metric: str, layer: int) -> list[Estimate]:
        """Sort the heads of a layer by a metric and estimate the k-th smallest over seeds."""
        ranked = []
        for run in self.runs:
            heads = run.heads[metric]
            parts = zip(heads.mean[layer], heads.low[layer], heads.high[layer])
            ranked.append(sorted(parts))
        if self.num_seeds == 1:
            n = self.runs[0].measure.num_images
            return [Estimate(*head, n, "images") for head in ranked[0]]
        return [over_seeds([head[0] for head in rank]) for rank in zip(*ranked)]


@dataclass(frozen=True)
class Family:
    """Conditions that share data and geometry (grids, layers, heads) and therefore figures."""

    conditions: tuple[ConditionRuns, ...]

    @property
    def first(self) -> Evidence:
        """The first run, which stands for what all runs share."""
        return self.conditions[0].runs[0]

    @property
    def is_models(self) -> bool:
        """Whether these are models that were only measured, not runs."""
        return self.first.is_model

    @property
    def where(self) -> str:
        """The data and the grids, for titles."""
        return f"{self.first.record.data.name}, {self.grids_text} patches"

    @property
    def name(self) -> str:
        """The name of the family: its model (or how many), the data and the grids."""
        models = {condition.runs[0].model_name for condition in self.conditions}
        protocols = {condition.runs[0].protocol["name"] for condition in self.conditions}
        which = self.first.sized_name if len(models) == 1 else f"{len(models)} models"
        if len(models) > 1 and len(protocols) == 1:
            which += f" by {spoken_name(next(iter(protocols)))}"
        return f"{which} on {self.where}"

    @property
    def length_text(self) -> str:
        """How many epochs its runs trained; a range if early stopping made them differ."""
        found = {run.trained.outcome.num_epochs for c in self.conditions for run in c.runs}
        return f"{'–'.join(map(str, sorted({min(found), max(found)})))} epochs"

    @property
    def grids_text(self) -> str:
        """The different grids of its layers."""
        return ", ".join(f"{rows}x{cols}" for rows, cols in dict.fromkeys(self.first.grids))

    @property
    def num_layers(self) -> int:
        """The number of attention layers."""
        return self.first.measure.num_layers

    @property
    def null(self) -> dict[str, float]:
        """The null lines of the first layer's grid."""
        return self.first.measure.null.lines

    @property
    def seeds_text(self) -> str:
        """How many seeds its conditions have."""
        counts = sorted({condition.num_seeds for condition in self.conditions})
        return "1 seed" if counts == [1] else f"{'–'.join(map(str, counts))} seeds"

    @property
    def images_text(self) -> str:
        """How many images its runs were measured on."""
        counts = {run.measure.num_images for c in self.conditions for run in c.runs}
        kind = "images" if self.is_models else "test images"
        return f"{'–'.join(f'{n:,}' for n in sorted(counts))} {kind}"

    @property
    def scope_text(self) -> str:
        """The images and seeds that the numbers of a figure are taken over."""
        return self.images_text if self.is_models else f"{self.images_text} · {self.seeds_text}"


def paired_difference(one: ConditionRuns, other: ConditionRuns, scalar: str) -> Estimate | None:
    """Estimate ``one - other`` over their common seeds; None if there are fewer than two."""
    if not (one.has(scalar) and other.has(scalar)):
        return None
    mine, yours = (
        {run.seed: run.scalars[scalar].value for run in x.runs if run.seed is not None}
        for x in (one, other)
    )
    found = paired_differences(mine, yours)
    return over_seeds(list(found.values())) if len(found) > 1 else None
