"""Hold the outcome of one method on one model: its numbers, their records, its stored form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearsight.evaluate.features import Split
from nearsight.evaluate.tasks import TaskNumber
from nearsight.runs.records import TaskResult
from nearsight.stats import (
    NUMBERS,
    Estimate,
    image_interval,
    number_name,
    paired_image_interval,
)


@dataclass(frozen=True)
class Measured:
    """One number of an outcome. Its interval is computed on first use."""

    finding: TaskNumber

    @cached_property
    def estimate(self) -> Estimate:
        """The number over all images with its 95 % interval over images."""
        return image_interval(self.finding.number, self.finding.records)

    def minus(self, other: Measured) -> Estimate:
        """Return how much this number exceeds another one, paired over the same images."""
        mine, theirs = self.finding.records, other.finding.records
        return paired_image_interval(self.finding.number, mine, theirs)


@dataclass(frozen=True)
class TaskOutcome:
    """One method of one task at one layer, of a model or of one of its controls."""

    task: str
    method: str
    layer: int
    place: str
    subject: str
    identity: str
    control: str | None
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    numbers: Mapping[str, Measured]
    seconds: float

    @property
    def comparable(self) -> tuple[Any, ...]:
        """The key that two outcomes must share to be compared in pairs."""
        return self.task, self.method, self.data["train"], self.data["val"]

    @property
    def slot(self) -> str:
        """The key of an outcome in a run folder; a newer outcome with the same key replaces it."""
        own = (self.task, self.method, self.layer, self.place, self.control, self.data["name"])
        return json.dumps([*own, self.identity if self.control is None else None])


def data_facts(train: Split, val: Split) -> dict[str, Any]:
    """Return the description of the images that a result contains."""
    return {
        "name": val.data,
        "train": train.identity,
        "val": val.identity,
        "num_train": len(train),
        "num_val": len(val),
        "num_classes": len(val.classes),
    }


def stored_outcome(outcome: TaskOutcome) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the entry of an outcome in evaluate.json, and its arrays by key."""
    arrays: dict[str, np.ndarray] = {}
    numbers = []
    for name, each in outcome.numbers.items():
        records, estimate = each.finding.records, each.estimate
        digest = hashlib.sha256(np.ascontiguousarray(records).tobytes())
        key = hashlib.sha256(f"{outcome.slot} {digest.hexdigest()}".encode()).hexdigest()[:16]
        arrays[key] = records
        arrays |= {f"{key} {shown}": x for shown, x in each.finding.examples.items()}
        stated = each.finding.settings.items()
        own = {said: x for said, x in stated if outcome.settings.get(said) != x}
        numbers.append(
            {
                "name": name,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "number": number_name(each.finding.number),
                "key": key,
                "details": {**each.finding.details, **({"settings": own} if own else {})},
            }
        )
    fields = ("task", "method", "layer", "place", "subject", "identity", "control", "seconds")
    contents = {name: getattr(outcome, name) for name in fields}
    contents |= {"data": dict(outcome.data), "settings": dict(outcome.settings)}
    return contents | {"numbers": numbers}, arrays


def read_outcome(result: TaskResult, arrays: Mapping[str, np.ndarray]) -> TaskOutcome:
    """Return the outcome of a stored result."""
    numbers = {}
    for each in result.numbers:
        details = dict(each.details)
        settings = {**result.settings, **details.pop("settings", {})}
        finding = TaskNumber(
            each.name, arrays[each.key], NUMBERS[each.number], settings, details,
            {
                name.removeprefix(f"{each.key} "): array
                for name, array in arrays.items()
                if name.startswith(f"{each.key} ")
            },
        )  # fmt: skip
        measured = Measured(finding)
        known = Estimate(each.value, each.low, each.high, len(finding.records), "images")
        measured.__dict__["estimate"] = known  # no need to resample again
        numbers[each.name] = measured
    return TaskOutcome(
        result.task, result.method, result.layer, result.place, result.subject, result.identity,
        result.control, result.data.contents(), result.settings, numbers, result.seconds,
    )  # fmt: skip
