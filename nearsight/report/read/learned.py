"""Read what a model's parts have learned, and what was measured while a run trained.

These are the Gaussians of GAug and the gates of GPSA, layer by layer, from measure.json, and the
looks (measurements of attention during training) from train.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.measure.catalogue import Number, shown_in
from nearsight.runs.records import LOG_FILE, LogLine, LookRecord, Stored, StoredFile, ValuesRecord
from nearsight.stats import Estimate


@dataclass(frozen=True)
class ReadDistribution:
    """The mean and the percentiles of a quantity over the patches and heads of a layer."""

    mean: Estimate
    percentiles: tuple[float, ...]  # 5, 25, 50, 75, 95 %


@dataclass(frozen=True)
class Gaussians:
    """The Gaussians of GAug in a layer: standard deviations in patches, and strengths."""

    deviation: ReadDistribution
    strength: ReadDistribution
    largest: float | None  # bound of the standard deviation; None where it is fixed
    near_bounds: tuple[float, float] | None  # shares near 0 and near the largest


class Gates(Stored):
    """The gates, centres and spans of GPSA in a layer, head by head; None where there is none."""

    gate: list[float] | None  # share of the positional attention; None: PSA, which has no gates
    centre: list[tuple[float, float] | None]  # (down, right) in patches
    span: list[float | None]  # square patches


@dataclass(frozen=True)
class Look:
    """The attention of a run after some epoch, measured while it trained; 0: before it trained."""

    epoch: int
    num_images: int
    heads: dict[str, list[list[float]]]  # [layer][head], by metric, where it was written down
    nonlocality: list[Estimate] | None  # of every layer; older runs did not write it down
    gates: list[Gates | None]  # of every layer, where it has GPSA; else empty
    unread: tuple[int, ...] = ()  # layers, counted from 0, that no output reads

    @property
    def mad(self) -> list[list[float]]:
        """MAD of every head, as [layer][head]."""
        return self.heads["mad"]

    def number(self, number: Number) -> float | None:
        """Return a number of the run at this epoch; None if its metric was not measured."""
        return number.of_heads(self.heads, self.unread)


class _SpreadRecord(Stored):
    mean: float
    low: float
    high: float
    percentiles: tuple[float, ...]


class _GaussianRecord(Stored):
    deviation: _SpreadRecord
    strength: _SpreadRecord
    largest: float | None
    near_bounds: tuple[float, float] | None


def looks_of(lines: Sequence[LogLine], folder: Path) -> list[Look]:
    """Return the looks in the lines of a run's train.jsonl."""
    return [_look(line.epoch, line.attention, folder) for line in lines if line.attention]


def _look(epoch: int, seen: LookRecord, folder: Path) -> Look:
    n, layers = seen.num_images, seen.layer_means("nonlocality")
    far = [Estimate(x.value, x.low, x.high, n, "images") for x in layers or []]
    where = f"attention of epoch {epoch}"
    heads = {
        x.name: _layers_of_heads(seen.metrics[x.name], folder, f"{where}: {x.name}")
        for x in shown_in("training")
        if x.name in seen.metrics
    }
    LOG_FILE.needed(folder, f"{where}: mad", heads.get("mad"))
    gates = seen.others.get("gpsa", [])
    found = [gates_of(x, LOG_FILE, folder, f"{where}: gpsa") for x in gates]
    every = range(1, 1 + len(heads["mad"]))
    unread = tuple(i - 1 for i in every if seen.read_layers and i not in seen.read_layers)
    return Look(epoch, n, heads, far or None, found, unread)


def _layers_of_heads(found: ValuesRecord, folder: Path, field: str) -> list[list[float]]:
    """Return the means of a metric as [layer][head]."""
    if isinstance(found.mean, list) and all(isinstance(layer, list) for layer in found.mean):
        return [layer for layer in found.mean if isinstance(layer, list)]
    raise LOG_FILE.damaged(folder, f"{field}.mean", "should be a list of layers")


def gates_of(
    entry: Any, file: StoredFile[Any], folder: Path, field: str = "layers.gpsa"
) -> Gates | None:
    """Check a layer's entry on GPSA and return it; None if the layer has no GPSA.

    Args:
        entry: The entry as it was read.
        file: The file it comes from, for errors.
        folder: The folder of that file.
        field: Where in the file the entry is.

    Raises:
        UserError: If the entry is damaged.
    """
    return None if entry is None else file.part(Gates, entry, folder, field)


def gaussians_of(entry: Any, n: int, file: StoredFile[Any], folder: Path) -> Gaussians | None:
    """Check a layer's entry on GAug and return it; None if the layer has no GAug.

    Args:
        entry: The entry as it was read.
        n: The number of images it was measured on.
        file: The file it comes from, for errors.
        folder: The folder of that file.

    Raises:
        UserError: If the entry is damaged.
    """
    if entry is None:
        return None
    found = file.part(_GaussianRecord, entry, folder, "layers.gaussian")
    return Gaussians(
        _distribution(found.deviation, n),
        _distribution(found.strength, n),
        found.largest,
        found.near_bounds,
    )


def _distribution(x: _SpreadRecord, n: int) -> ReadDistribution:
    return ReadDistribution(Estimate(x.mean, x.low, x.high, n, "images"), x.percentiles)
