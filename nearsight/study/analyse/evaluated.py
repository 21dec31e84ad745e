"""Read the numbers of frozen features that claims need from the evaluate.json of a cell.

The paper's segmentation number comes from its own method (``locat``). If a cell was evaluated by
another method, its number is used, and the settings name the method. A verdict can then say how the
evaluation differs from the paper's, and cells that were evaluated differently are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nearsight.runs.records import EvaluateRecord, ResultNumber, TaskResult
from nearsight.study.design import Level

CACHED, FULL = "cached features", "random crops"


class Evaluated(NamedTuple):
    """A number that claims need, and the methods that give it; the first available one is used."""

    task: str
    methods: Sequence[str]
    number: str  # the name of the method's number


EVALUATED: Mapping[str, Evaluated] = {
    "segmentation_miou": Evaluated("segmentation", ("locat", "logreg"), "mIoU"),
    "hummingbird_miou": Evaluated("segmentation", ("hummingbird",), "mIoU"),
    "linear_accuracy": Evaluated("linear", ("dino", "logreg"), "top1"),
    "knn_accuracy": Evaluated("knn", ("dino",), "top1 of 10"),
}


def evaluated_values(record: EvaluateRecord, data: str | None) -> dict[str, float]:
    """Return the evaluated numbers by the names that claims use.

    Args:
        record: The evaluate.json of a cell.
        data: The data set that the study evaluates on. Results on other sets are left out.
    """
    found = {name: _choose_result(record, each, data) for name, each in EVALUATED.items()}
    return {name: each[1].value for name, each in found.items() if each is not None}


def evaluated_settings(record: EvaluateRecord, data: str | None) -> dict[str, Level]:
    """Return how the numbers were evaluated: ``evaluate.NAME.method``, ``.data`` and so on."""
    found: dict[str, Level] = {}
    for name, wanted in EVALUATED.items():
        chosen = _choose_result(record, wanted, data)
        if chosen is None:
            continue
        result, _ = chosen
        scale = str(result.settings.get("scale", ""))
        found |= {
            f"evaluate.{name}.method": result.method,
            f"evaluate.{name}.data": result.data.name,
            f"evaluate.{name}.num_train": result.data.num_train,
            f"evaluate.{name}.num_val": result.data.num_val,
        }
        if scale:
            found[f"evaluate.{name}.scale"] = FULL if scale.startswith("full") else CACHED
    return found


def _choose_result(
    record: EvaluateRecord, wanted: Evaluated, data: str | None
) -> tuple[TaskResult, ResultNumber] | None:
    """Return the model's own result at its last layer, by the first method that was used."""
    own = [
        result
        for result in record.results
        if result.control is None
        and result.task == wanted.task
        and (data is None or result.data.name == data)
    ]
    for method in wanted.methods:
        layers = sorted((x for x in own if x.method == method), key=lambda x: x.layer)
        numbers = {x.name: x for x in layers[-1].numbers} if layers else {}
        if wanted.number in numbers:
            return layers[-1], numbers[wanted.number]
    return None
