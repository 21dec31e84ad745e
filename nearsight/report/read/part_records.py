"""Read what the parts of a model have learned, layer by layer, from measure.json and train.jsonl.

``PART_RECORDS`` has an entry for every part whose numbers are in these files. Figures and tables
ask for the numbers of a part by their type, as in ``run.learned.layers(Gates)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nearsight.runs.records import MEASURE_FILE, MeasureRecord, Stored, StoredFile
from nearsight.stats import Estimate

Layer = TypeVar("Layer")


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
    largest: float | None  # upper bound of the standard deviation; None if it is fixed
    near_bounds: tuple[float, float] | None  # shares of deviations near 0 and near the upper bound


class Gates(Stored):
    """The gates, centres and spans of GPSA in a layer, head by head."""

    gate: list[float] | None  # share of the positional attention; None: PSA, which has no gates
    centre: list[tuple[float, float] | None]  # (down, right) in patches; None: it has no centre
    span: list[float | None]  # in square patches; None for a head without a centre


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

    def over(self, num_images: int) -> Gaussians:
        """Convert the record, given the number of images behind its intervals."""
        deviation, strength = (
            ReadDistribution(Estimate(x.mean, x.low, x.high, num_images, "images"), x.percentiles)
            for x in (self.deviation, self.strength)
        )
        return Gaussians(deviation, strength, self.largest, self.near_bounds)


@dataclass(frozen=True)
class PartRecord:
    """How the files of a run record what a part has learned.

    Args:
        key: The key of the part, in a layer of measure.json and in a look of train.jsonl.
        title: The name of the part for readers.
        kind: The type that figures and tables get.
        stored: The type of the entry in the file.
        convert: Takes an entry of type ``stored`` and the number of measured images, and returns
            an object of type ``kind``.
    """

    key: str
    title: str
    kind: type[Any]
    stored: type[Stored]
    convert: Callable[[Any, int], Any]


PART_RECORDS = (
    PartRecord("gaussian", "GAug", Gaussians, _GaussianRecord, _GaussianRecord.over),
    PartRecord("gpsa", "GPSA", Gates, Gates, lambda gates, num_images: gates),
)


@dataclass(frozen=True)
class Learned:
    """What the parts of a model have learned; a part that the model does not have has no entry."""

    by_kind: Mapping[type[Any], list[Any]]  # by layer; None for a layer without the part

    def __bool__(self) -> bool:
        """Tell whether the model has any such part."""
        return bool(self.by_kind)

    def layers(self, kind: type[Layer]) -> list[Layer | None]:
        """Return what a part has learned in every layer; empty if the model does not have it."""
        return self.by_kind.get(kind, [])

    def titles_without(self, layer: int) -> list[str]:
        """Return the names of the parts that other layers have and this one (from 0) lacks."""
        return [x.title for x in PART_RECORDS if x.kind in self.by_kind and not self._has(x, layer)]

    def _has(self, part: PartRecord, layer: int) -> bool:
        return self.by_kind[part.kind][layer] is not None


def learned_in_measurement(measure: MeasureRecord, folder: Path) -> Learned:
    """Return what each part has learned in every layer, from the measure.json of a folder.

    Raises:
        UserError: If an entry is damaged.
    """
    layers = [layer.others for layer in measure.layers]
    entries = {part.key: [layer.get(part.key) for layer in layers] for part in PART_RECORDS}
    return read_learned(entries, measure.num_images, MEASURE_FILE, folder, "layers")


def read_learned(
    entries: Mapping[str, Sequence[Any]],
    num_images: int,
    file: StoredFile[Any],
    folder: Path,
    field: str,
) -> Learned:
    """Check the entries of parts in a file, and return what each part has learned in every layer.

    Args:
        entries: The entries of all layers, by the key of the part; None for a layer without it.
        num_images: The number of images they were measured on.
        file: The file they come from; errors name it.
        folder: The folder of that file.
        field: The field of the file that contains the layers.

    Raises:
        UserError: If an entry is damaged.
    """

    def checked(part: PartRecord, entry: Any) -> Any:
        if entry is None:
            return None
        stored = file.part(part.stored, entry, folder, f"{field}.{part.key}")
        return part.convert(stored, num_images)

    return Learned(
        {
            part.kind: [checked(part, entry) for entry in entries[part.key]]
            for part in PART_RECORDS
            if any(entry is not None for entry in entries.get(part.key, ()))
        }
    )
