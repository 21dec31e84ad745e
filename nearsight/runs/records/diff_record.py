"""diff.json: how two measured folders differ on the images that both were measured on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from nearsight.runs.records.entries import IntervalRecord
from nearsight.runs.records.measure_record import ConventionRecord, DataNameRecord
from nearsight.runs.records.stored import Stored, StoredFile


class SideRecord(Stored):
    """One of the two folders."""

    folder: str
    name: str


class MetricChangeRecord(Stored):
    """The difference b - a of a metric in one layer; per head only if the heads correspond."""

    of_mean: IntervalRecord
    mean: list[float] | None = None
    low: list[float] | None = None
    high: list[float] | None = None

    @property
    def heads(self) -> list[tuple[float, float, float]]:
        """Return mean, low and high of every head; empty if the heads do not correspond."""
        return list(zip(self.mean or [], self.low or [], self.high or []))


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Stored) else {}
    return "<change>" if "of_mean" in keys else "<other>"


class LayerChangeRecord(Stored):
    """The differences b - a in one layer, by name of the metric."""

    __pydantic_extra__: dict[
        str,
        Annotated[
            Annotated[MetricChangeRecord, Tag("<change>")] | Annotated[Any, Tag("<other>")],
            Discriminator(_kind),
        ],
    ]
    layer: int
    name: str

    @property
    def metrics(self) -> dict[str, MetricChangeRecord]:
        """Return the differences by name of the metric."""
        entries = (self.model_extra or {}).items()
        return {name: x for name, x in entries if isinstance(x, MetricChangeRecord)}


class DiffRecord(Stored):
    """diff.json: the differences b - a."""

    schema_version: Literal[1]
    nearsight: str | None = None
    a: SideRecord
    b: SideRecord
    num_images: int
    data: DataNameRecord
    convention: ConventionRecord
    interval: str
    level: Literal["head", "layer", "model"]
    distance: str
    notes: list[str]
    mean: dict[str, IntervalRecord]
    most_local: IntervalRecord
    layers: list[LayerChangeRecord]


DIFF_FILE: StoredFile[DiffRecord] = StoredFile(
    name="diff.json", kind=DiffRecord, repair="run nearsight diff again"
)
