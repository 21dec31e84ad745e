"""Read numbers by name of a metric, as measure.json and train.jsonl hold them.

``nearsight.measure.metrics`` decides which metrics exist; a file may contain any of them. The form
of a value reveals its kind, so a file can be read without knowing the names.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import Discriminator, Tag

from nearsight.runs.records.stored import Stored

Numbers = float | list[float] | list[list[float]] | None  # None: not available in this layer


class IntervalRecord(Stored):
    """A number with its 95 % interval over images."""

    value: float
    low: float
    high: float


class ExtremeRecord(IntervalRecord):
    """The smallest or largest mean of a head, and which head it is (counted from 1)."""

    layer: int
    head: int
    method: str | None = None
    resamples: int | None = None


class ValuesRecord(Stored):
    """A metric of a layer or of all layers: mean over images, 95 % interval, deviation."""

    mean: Numbers
    low: Numbers = None
    high: Numbers = None
    sd: Numbers = None

    @property
    def per_head(self) -> list[float]:
        """The mean of every head; empty if a head has no number or several."""
        return [x for x in self.mean if isinstance(x, float)] if isinstance(self.mean, list) else []


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Stored) else {}
    if "value" in keys:
        return "<extreme>" if "layer" in keys else "<interval>"
    if "mean" in keys:
        return "<values>"
    if isinstance(value, list) and value and all(_kind(x) == "<interval>" for x in value):
        return "<intervals>"
    return "<other>"


Entry = Annotated[
    Annotated[ExtremeRecord, Tag("<extreme>")]
    | Annotated[IntervalRecord, Tag("<interval>")]
    | Annotated[ValuesRecord, Tag("<values>")]
    | Annotated[list[IntervalRecord], Tag("<intervals>")]
    | Annotated[Any, Tag("<other>")],
    Discriminator(_kind),
]
Kind = TypeVar("Kind")


class Entries(Stored):
    """An object that holds, besides its fields, numbers by name of a metric."""

    __pydantic_extra__: dict[str, Entry]

    @property
    def others(self) -> dict[str, Any]:
        """Return the values under keys that are not fields."""
        return self.model_extra or {}

    def entries(self, kind: type[Kind]) -> dict[str, Kind]:
        """Return the values under other keys that are of one kind."""
        return {name: x for name, x in self.others.items() if isinstance(x, kind)}
