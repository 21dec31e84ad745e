"""Numbers of frozen features that claims are about, from a cell's evaluate.json.

A paper's number of segmentation is that of its own method (``locat``). Cells that were evaluated by
another one have the number of that method, and the settings say which, so that a verdict can tell
what is not as in the paper and cells that were evaluated differently are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nearsight.runs.records import EvaluateRecord, ResultNumber, TaskResult
from nearsight.study.design import Level

CACHED, FULL = "cached features", "random crops"


class Evaluated(NamedTuple):
    """A number that claims ask for: the methods that give it, the first that is there counts."""

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
    """Return the numbers that were evaluated, by the names that claims use.

    Args:
        record: The evaluate.json of a cell.
        data: The data set that the study evaluates on. Results on other sets are left out.
    """
    found = {name: _chosen(record, each, data) for name, each in EVALUATED.items()}
    return {name: each[1].value for name, each in found.items() if each is not None}


def evaluated_settings(record: EvaluateRecord, data: str | None) -> dict[str, Level]:
    """Return how the numbers were evaluated: ``evaluate.NAME.method``, ``.data`` and others."""
    found: dict[str, Level] = {}
    for name, wanted in EVALUATED.items():
        chosen = _chosen(record, wanted, data)
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


def _chosen(
    record: EvaluateRecord, wanted: Evaluated, data: str | None
) -> tuple[TaskResult, ResultNumber] | None:
    """Return the model's own result at the last layer by the first method that is there."""
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
