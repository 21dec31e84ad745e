"""Read from train.jsonl how local attention was while a run trained; each measurement is a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearsight.measure.catalogue import Number, shown_in
from nearsight.report.read.part_records import Learned, read_learned
from nearsight.runs.records import LOG_FILE, LogLine, LookRecord, ValuesRecord
from nearsight.stats import Estimate


@dataclass(frozen=True)
class Look:
    """The attention of a run, measured while it trained."""

    epoch: int  # after which it was measured; 0: before training
    num_images: int
    heads: dict[str, list[list[float]]]  # [layer][head], for every metric that was recorded
    nonlocality: list[Estimate] | None  # of every layer; None in older runs
    learned: Learned  # what the parts of the model have learned so far
    unread: tuple[int, ...] = ()  # layers, counted from 0, that no output reads

    @property
    def mad(self) -> list[list[float]]:
        """MAD of every head, as [layer][head]."""
        return self.heads["mad"]

    def number(self, number: Number) -> float | None:
        """Return a number of the run at this epoch; None if its metric was not measured."""
        return number.of_heads(self.heads, self.unread)


def looks_of(lines: Sequence[LogLine], folder: Path) -> list[Look]:
    """Return the looks among the lines of a run's train.jsonl.

    Raises:
        UserError: If a look is damaged.
    """
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
    learned = read_learned(seen.others, n, LOG_FILE, folder, where)
    every = range(1, 1 + len(heads["mad"]))
    unread = tuple(i - 1 for i in every if seen.read_layers and i not in seen.read_layers)
    return Look(epoch, n, heads, far or None, learned, unread)


def _layers_of_heads(found: ValuesRecord, folder: Path, field: str) -> list[list[float]]:
    """Return the means of a metric as [layer][head]."""
    if isinstance(found.mean, list) and all(isinstance(layer, list) for layer in found.mean):
        return [layer for layer in found.mean if isinstance(layer, list)]
    raise LOG_FILE.damaged(folder, f"{field}.mean", "should be a list of layers")
