"""What measure.json and train.jsonl say of a model's own parts, layer by layer, as plain numbers.

The Gaussians of GAug, the gates of GPSA, and the looks at attention while a run trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

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
    mad: list[list[float]]  # [layer][head]
    entropy: list[list[float]] | None  # None where it was not written down
    self_mass: list[list[float]] | None
    nonlocality: list[Estimate] | None  # of every layer; older runs did not write it down
    gates: list[Gates | None]  # of every layer, where it has GPSA; else empty

    def number(self, name: str) -> float | None:
        """``min_mad``, ``layer1_mad``, mean ``entropy`` or mean ``self_mass``; None if not seen."""
        if name == "min_mad":
            return min(map(min, self.mad))
        if name == "layer1_mad":
            return fmean(self.mad[0])
        layers = {"entropy": self.entropy, "self_mass": self.self_mass}[name]
        return None if layers is None else fmean(chain.from_iterable(layers))


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
        entropy, mass = (seen.get(name, {}).get("mean") for name in ("entropy", "self_mass"))
        look = Look(int(line["epoch"]), n, seen["mad"]["mean"], entropy, mass, far, gates)
        found.append(look)
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
