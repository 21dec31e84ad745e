"""What measure.json and train.jsonl say of a model's own parts, layer by layer, as plain numbers.

The Gaussians of GAug, the gates of GPSA, and the looks at attention while a run trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearsight.measure.catalogue import Number, shown_in
from nearsight.stats import Estimate

PARTS = ("mean", "low", "high")


@dataclass(frozen=True)
class Distribution:
    """A number of every patch and head of a layer: its mean, and its percentiles."""

    mean: Estimate
    percentiles: tuple[float, ...]  # 5, 25, 50, 75, 95 %


@dataclass(frozen=True)
class Gaussians:
    """What GAug does in a layer: standard deviations in patches, and strengths."""

    deviation: Distribution
    strength: Distribution
    largest: float | None  # bound of the standard deviation; None where it is fixed
    near_bounds: tuple[float, float] | None  # shares near 0 and near the largest


@dataclass(frozen=True)
class Gates:
    """What GPSA does in a layer, head by head; None for what a head does not have."""

    gate: list[float] | None  # share of the positional attention; None: PSA, which has no gates
    centre: list[tuple[float, float] | None]  # (down, right) in patches
    span: list[float | None]  # square patches


@dataclass(frozen=True)
class Look:
    """The attention of a run at some epoch, 0 before its first step."""

    epoch: int
    num_images: int
    heads: dict[str, list[list[float]]]  # [layer][head], by metric, where it was written down
    nonlocality: list[Estimate] | None  # of every layer; older runs did not write it down
    gates: list[Gates | None]  # of every layer, where it has GPSA; else empty

    @property
    def mad(self) -> list[list[float]]:
        return self.heads["mad"]

    def number(self, number: Number) -> float | None:
        """Return a number of the run at this epoch; None where its metric was not seen."""
        layers = self.heads.get(number.metric or "")
        return None if layers is None else number.of_heads(layers)


def estimate_of(entry: dict[str, Any], n: int) -> Estimate:
    mean, low, high = (float(entry[part]) for part in PARTS)
    return Estimate(mean, low, high, n, "images")


def looks_of(lines: list[dict[str, Any]]) -> list[Look]:
    found = []
    for line in lines:
        if (seen := line.get("attention")) is None:
            continue
        layers, n = seen.get("layer_mean_nonlocality"), int(seen["num_images"])
        far = layers and [Estimate(x["value"], x["low"], x["high"], n, "images") for x in layers]
        gates = [gates_of(entry) for entry in seen.get("gpsa", [])]
        heads = {x.name: seen[x.name]["mean"] for x in shown_in("training") if x.name in seen}
        found.append(Look(int(line["epoch"]), n, heads, far, gates))
    return found


def gates_of(entry: dict[str, Any] | None) -> Gates | None:
    """What a layer says of its GPSA, if it has any."""
    if entry is None:
        return None
    centres = [None if x is None else (float(x[0]), float(x[1])) for x in entry["centre"]]
    return Gates(entry["gate"], centres, entry["span"])


def gaussians_of(entry: dict[str, Any] | None, n: int) -> Gaussians | None:
    """What a layer says of its GAug, if it has any."""
    if entry is None:
        return None
    deviation, strength = (
        Distribution(estimate_of(entry[name], n), tuple(map(float, entry[name]["percentiles"])))
        for name in ("deviation", "strength")
    )
    near = entry["near_bounds"]
    return Gaussians(deviation, strength, entry["largest"], (near[0], near[1]) if near else None)
