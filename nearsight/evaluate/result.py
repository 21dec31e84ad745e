"""Hold the result of an evaluation: show it, compare it with another one, write and read it."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearsight.core import UserError
from nearsight.evaluate.task_outcome import TaskOutcome, read_outcome, stored_outcome
from nearsight.runs import (
    EVALUATE,
    SCHEMA_VERSION,
    finish_evaluation,
    provenance,
    read_evaluate,
    write_evaluation,
)
from nearsight.runs.records import RECORDS, LayerDistances
from nearsight.stats import Estimate

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Difference:
    """How much one model exceeds another in one number, paired over images."""

    one: str
    other: str
    task: str
    method: str
    number: str
    estimate: Estimate

    def __str__(self) -> str:
        e = self.estimate
        return (
            f"{self.task}/{self.method} {self.number}: {self.one} - {self.other} = "
            f"{100 * e.value:+.2f} ({100 * e.low:+.2f} to {100 * e.high:+.2f}), n = {e.n} images"
        )


@dataclass(frozen=True)
class Evaluation:
    """Everything that was evaluated of one model, with its controls.

    ``print(evaluation)`` shows every number in percent with its 95 % interval over images.
    """

    model: str
    identity: str
    outcomes: Sequence[TaskOutcome]
    remarks: Sequence[str] = field(default_factory=tuple)
    distances: LayerDistances | None = None

    def __repr__(self) -> str:
        lines = [f"Evaluation of {self.model} (percent, 95 % interval over images)"]
        for row in self.rows():
            who = row["control"] or self.model
            lines.append(
                f"  {row['task']}/{row['method']} layer {row['layer']} {who}: {row['number']} "
                f"{100 * row['value']:.2f} ({100 * row['low']:.2f} to {100 * row['high']:.2f}), "
                f"n = {row['n']}"
            )
        return "\n".join([*lines, *self.remarks])

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each number, values in 0..1."""
        return [
            {
                "model": self.model,
                "control": outcome.control,
                "data": outcome.data["name"],
                "task": outcome.task,
                "method": outcome.method,
                "layer": outcome.layer,
                "place": outcome.place,
                "number": name,
                "value": each.estimate.value,
                "low": each.estimate.low,
                "high": each.estimate.high,
                "n": each.estimate.n,
            }
            for outcome in self.outcomes
            for name, each in outcome.numbers.items()
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame.

        Raises:
            UserError: If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UserError(
                "to_pandas() needs pandas, which is not installed; run pip install pandas"
            ) from None
        return pandas.DataFrame(self.rows())

    def compare(self, other: Evaluation) -> list[Difference]:
        """Return how much this model exceeds another one, paired over the same images.

        For each method that both have on the same images, their last layers are compared.

        Raises:
            UserError: If the two have no method on the same images.
        """
        mine, theirs = _best(self.outcomes), _best(other.outcomes)
        found = [
            Difference(
                self.model, other.model, one.task, one.method, name,
                one.numbers[name].minus(theirs[key].numbers[name]),
            )
            for key, one in mine.items()
            if key in theirs
            for name in one.numbers
            if name in theirs[key].numbers
        ]  # fmt: skip
        if not found:
            raise UserError(
                f"{self.model} and {other.model} have no task in common on the same images; "
                "evaluate both with the same settings"
            )
        return found

    def merge(self, newer: Evaluation) -> Evaluation:
        """Return both evaluations of a model as one. Newer results replace older ones."""
        found = {outcome.slot: outcome for outcome in (*self.outcomes, *newer.outcomes)}
        remarks = tuple(dict.fromkeys((*self.remarks, *newer.remarks)))
        distances = newer.distances or self.distances
        return replace(newer, outcomes=tuple(found.values()), remarks=remarks, distances=distances)

    def write(self, folder: Path, device: str = "cpu") -> Path:
        """Write evaluate.json and evaluate.npz. Earlier results of the same weights are kept."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        whole = self
        finish_evaluation(folder)
        if (folder / EVALUATE).is_file():
            earlier = read_evaluation(folder)
            if earlier.identity == self.identity:
                whole = earlier.merge(self)
        results: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for outcome in whole.outcomes:
            contents, records = stored_outcome(outcome)
            results.append(contents)
            arrays |= records
        contents = {
            "schema_version": SCHEMA_VERSION,
            "model": whole.model,
            "identity": whole.identity,
            "results": results,
            "remarks": list(whole.remarks),
            "provenance": provenance(device),
        }
        if whole.distances is not None:
            contents["distances"] = whole.distances.contents()
        return write_evaluation(folder, contents, {RECORDS: _packed(arrays)})


def _best(outcomes: Iterable[TaskOutcome]) -> dict[tuple[Any, ...], TaskOutcome]:
    """Return the outcome of the model's last layer for each method and each choice of images."""
    own = sorted((x for x in outcomes if x.control is None), key=lambda x: x.layer)
    return {outcome.comparable: outcome for outcome in own}


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as a compressed npz file.

    Compression pays, because the confusion matrix of a single image is mostly zeros.
    """
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **dict(arrays))
    return file.getvalue()


def read_evaluation(folder: Path) -> Evaluation:
    """Read evaluate.json and evaluate.npz of a folder.

    Raises:
        UserError: If a file is missing or damaged.
    """
    record = read_evaluate(folder)
    path = Path(folder) / RECORDS
    try:
        with np.load(path) as file:
            arrays = {key: file[key] for key in file.files}
        outcomes = tuple(read_outcome(result, arrays) for result in record.results)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path} is missing or damaged ({error}); run nearsight evaluate {folder} again"
        ) from None
    return Evaluation(
        record.model, record.identity, outcomes, tuple(record.remarks), record.distances
    )
