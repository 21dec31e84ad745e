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
MIOU, TOP_1_OF = "mIoU", "top1 of "
NEAREST = f"{TOP_1_OF}10"  # neighbours


class Evaluated(NamedTuple):
    """A number that claims need, and the methods that give it; the first available one is used."""

    task: str
    methods: Sequence[str]
    number: str  # the name of the method's number


EVALUATED: Mapping[str, Evaluated] = {
    "segmentation_miou": Evaluated("segmentation", ("locat", "logreg"), MIOU),
    "hummingbird_miou": Evaluated("segmentation", ("hummingbird",), MIOU),
    "linear_accuracy": Evaluated("linear", ("dino", "logreg"), "top1"),
    "knn_accuracy": Evaluated("knn", ("dino",), NEAREST),
}


def evaluated_values(record: EvaluateRecord, data: str | None) -> dict[str, float]:
    """Return the evaluated numbers by the names that claims use.

    Args:
        record: The evaluate.json of a cell.
        data: The data set that the study evaluates on. Results on other sets are left out.
    """
    found = {name: _choose_result(record, each, data) for name, each in EVALUATED.items()}
    return {name: each[1].value for name, each in found.items() if each is not None}


def printed_values(record: EvaluateRecord, data: str | None) -> dict[str, float]:
    """Return further numbers that tables of the papers print, always by the paper's own method.

    ``segmentation_miou_DATA`` and ``hummingbird_miou_DATA`` are the mIoU on every data set that the
    cell was evaluated on, also by hand after the study; ``knn_accuracy_K`` is that of k-NN with K
    neighbours on the data set of the study. Claims do not read them.
    """
    found = {}
    for name, wanted in EVALUATED.items():
        papers = wanted._replace(methods=wanted.methods[:1])
        if wanted.number == MIOU:
            for other in {result.data.name for result in record.results}:
                if (chosen := _choose_result(record, papers, other)) is not None:
                    found[f"{name}_{other}"] = chosen[1].value
        elif wanted.number == NEAREST and (chosen := _choose_result(record, papers, data)):
            found |= {
                f"{name}_{number.name.removeprefix(TOP_1_OF)}": number.value
                for number in chosen[0].numbers
                if number.name.startswith(TOP_1_OF)
            }
    return found


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
