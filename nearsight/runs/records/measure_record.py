"""measure.json: the attention metrics of every head of a run or model.

In version 1 a layer has only its number and metrics, and the whole model has one grid. Version 2
adds facts and null lines of every layer, and lists what was skipped or is not available. Version 3
marks the layers that no output reads and leaves them out of ``summary``, which lists the layers
that it covers; ``summary_of_all_layers`` covers all of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from nearsight.runs.records.entries import (
    Entries,
    ExtremeRecord,
    IntervalRecord,
    ValuesRecord,
)
from nearsight.runs.records.stored import Stored, StoredFile

MEASURE_VERSION = 3
UNIT = "grid diagonal"
Sides = Annotated[int, Field(ge=1, le=2**16)]  # rows or columns of patches
MOST_LOCAL = "most_local_self_mass"  # the self-mass of the head with the smallest MAD


class ConventionRecord(Stored):
    """How distances were counted; version 1 always used the paper's convention."""

    name: str = "paper"
    unit: str = UNIT
    text: str = ""


class MeasuredNullRecord(Stored):
    """A null model that was measured; its layer means have the keys ``layer_mean_<metric>``."""

    __pydantic_extra__: dict[
        str,
        Annotated[
            Annotated[list[float], Tag("<means>")] | Annotated[Any, Tag("<other>")],
            Discriminator(lambda x: "<means>" if isinstance(x, list) else "<other>"),
        ],
    ]
    num_images: int

    def layer_means(self, metric: str) -> list[float] | None:
        """Return the mean over the heads of every layer, or None if it was not measured."""
        means = (self.model_extra or {}).get(f"layer_mean_{metric}")
        return means if isinstance(means, list) else None


class NullRecord(Stored):
    """The null lines of a grid by name, such as ``uniform_mad``, and the measured null models."""

    __pydantic_extra__: dict[
        str,
        Annotated[
            Annotated[MeasuredNullRecord, Tag("<measured>")] | Annotated[float, Tag("<line>")],
            Discriminator(
                lambda x: "<measured>" if isinstance(x, dict | MeasuredNullRecord) else "<line>"
            ),
        ],
    ]

    @property
    def lines(self) -> dict[str, float]:
        """Return the null lines that are computed from the grid, by name."""
        return {name: x for name, x in (self.model_extra or {}).items() if isinstance(x, float)}

    @property
    def measured(self) -> dict[str, MeasuredNullRecord]:
        """Return the null models that were measured, by name."""
        entries = (self.model_extra or {}).items()
        return {name: x for name, x in entries if isinstance(x, MeasuredNullRecord)}


class LayerRecord(Entries):
    """A layer: facts, metrics by name, and read-outs of its parts among ``others``."""

    layer: int  # counted from 1
    name: str | None = None
    kind: str | None = None
    grid: tuple[Sides, Sides] | None = None  # version 1: that of the whole model
    num_heads: int | None = None
    num_prefix: int | None = None
    num_keys: int | None = None
    num_windows: int | None = None
    proof_error: float | None = None
    note: str | None = None
    num_unplaced: int | None = None
    image_size: tuple[int, int] | None = None
    null: NullRecord | None = None  # version 1: that of the whole model
    head_names: list[str] | None = None
    unread: bool | None = None  # no output depends on its patch queries; None: unknown

    @property
    def metrics(self) -> dict[str, ValuesRecord]:
        """Return the metrics by name."""
        return self.entries(ValuesRecord)


class SummaryNumbers(Entries):
    """Numbers of the whole model, under names such as ``min_mad`` and ``layer_mean_mad``."""

    layers: list[int] | None = None  # layers it covers, counted from 1; older files: all
    heads_below_box: int | None = None
    identity_heads: int | None = None  # heads below the box with a self-mass of 0.5 or more
    local_heads: int | None = None  # the other heads below the box

    @model_validator(mode="after")
    def _names_fit_kinds(self) -> SummaryNumbers:
        for name, value in self.others.items():
            kind, description = _expected(name)
            fits = kind is None or isinstance(value, kind)
            if fits and kind is list:
                fits = all(isinstance(x, IntervalRecord) for x in value)
            if not fits:
                raise ValueError(f"{name} should be {description}")
        return self

    def mean(self, metric: str) -> IntervalRecord | None:
        """Return the mean over all heads."""
        return self.entries(IntervalRecord).get(f"mean_{metric}")

    def layer_means(self, metric: str) -> list[IntervalRecord] | None:
        """Return the mean over the heads of every layer."""
        return self.entries(list).get(f"layer_mean_{metric}")

    def smallest(self, metric: str) -> ExtremeRecord | None:
        """Return the smallest mean of any head."""
        return self.entries(ExtremeRecord).get(f"min_{metric}")


def _expected(name: str) -> tuple[type | None, str]:
    if name.startswith(("min_", "max_")):
        return ExtremeRecord, "an object with value, low, high, layer and head"
    if name.startswith("layer_mean_"):
        return list, "a list of objects with value, low and high"
    if name.startswith("mean_"):
        return IntervalRecord, "an object with value, low and high"
    return None, ""


class SkippedRecord(Stored):
    """A layer that was not measured, and why."""

    name: str
    reason: str


class UnavailableRecord(Stored):
    """A metric that does not exist in a layer, and why."""

    metric: str
    layer: Any
    reason: str


class DataNameRecord(Stored):
    """Name and hash of the images."""

    name: str
    hash: str


class KeptExamplesRecord(Stored):
    """The images whose attention examples.json holds, or why there are none."""

    names: list[str]
    problem: str | None = None


class MeasuredWeightsRecord(Stored):
    """The weights that were measured."""

    sha256: str | None = None


class MeasureRecord(Stored):
    """measure.json; ``files`` has the sha256 of the files that were written with it, by name."""

    schema_version: Literal[1, 2, 3]
    nearsight: str | None = None
    convention: ConventionRecord
    num_images: Annotated[int, Field(ge=1)]
    num_available: int | None = None  # images to choose from
    settings: dict[str, Any] | None = None  # what was asked for; not in older files
    grid: tuple[Sides, Sides]
    num_prefix: int | None = None
    num_layers: Annotated[int, Field(ge=1)]
    num_heads: list[Annotated[int, Field(ge=1)]]
    null: NullRecord
    layers: list[LayerRecord]
    skipped: list[SkippedRecord] = Field(default_factory=list)
    unavailable: list[UnavailableRecord] = Field(default_factory=list)
    summary: SummaryNumbers
    summary_of_all_layers: SummaryNumbers | None = None  # if the summary leaves some out
    data: DataNameRecord
    weights: MeasuredWeightsRecord | None = None
    seconds: float
    files: dict[str, str] = Field(default_factory=dict)  # empty in older files
    examples: KeptExamplesRecord | None = None

    @model_validator(mode="after")
    def _counts_agree(self) -> MeasureRecord:
        layers = len(self.layers)
        if not layers == self.num_layers == len(self.num_heads):
            raise ValueError(
                f"it has {layers} layers, but num_layers is {self.num_layers} and num_heads has "
                f"{len(self.num_heads)} numbers"
            )
        for summary in (self.summary, self.of_all_layers):
            for name, extreme in summary.entries(ExtremeRecord).items():
                if not 1 <= extreme.layer <= layers:
                    raise ValueError(
                        f"{name} is of layer {extreme.layer}, but there are only {layers} layers"
                    )
                heads = self.num_heads[extreme.layer - 1]
                if not 1 <= extreme.head <= heads:
                    raise ValueError(
                        f"{name} is of head {extreme.head}, but the layer has only {heads} heads"
                    )
        return self

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the whole model by name.

        Older files lack the self-mass of the most local head, which is then read from the layers.
        """
        numbers = dict(self.summary.others)
        least = self.summary.smallest("mad")
        if MOST_LOCAL not in numbers and least is not None:
            values = self.layers[least.layer - 1].metrics.get("self_mass")
            at = least.head - 1
            ends = {"value": values.mean, "low": values.low, "high": values.high} if values else {}
            entry = {
                name: x[at]
                for name, x in ends.items()
                if isinstance(x, list) and at < len(x) and isinstance(x[at], float)
            }
            if len(entry) == 3:
                numbers[MOST_LOCAL] = IntervalRecord.model_validate(entry)
        return numbers

    @property
    def unread(self) -> list[int]:
        """The layers, counted from 0, that no output reads, so that the summary omits them."""
        return [i for i, layer in enumerate(self.layers) if layer.unread]

    @property
    def read(self) -> list[int]:
        """The layers, counted from 0, that the summary covers."""
        return [i for i in range(len(self.layers)) if i not in self.unread]

    @property
    def of_all_layers(self) -> SummaryNumbers:
        """The summary of all layers, as papers report it."""
        return self.summary_of_all_layers or self.summary

    @property
    def grids(self) -> list[tuple[int, int]]:
        """The grid of every layer; all are equal except in hierarchical models."""
        return [layer.grid or self.grid for layer in self.layers]

    def null_lines(self, layer: int) -> dict[str, float]:
        """Return the null lines of a layer's grid; layers are counted from 0."""
        return (self.layers[layer].null or self.null).lines


MEASURE_FILE: StoredFile[MeasureRecord] = StoredFile(
    name="measure.json",
    kind=MeasureRecord,
    repair="run nearsight measure {folder} again",
    absent="{folder} has no measure.json: run nearsight measure {folder} first",
    versions=(1, 2, MEASURE_VERSION),
)
