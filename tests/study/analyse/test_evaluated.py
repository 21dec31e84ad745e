"""Numbers of frozen features reach outcomes and claims from evaluate.json of each cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs.made_records import evaluate_contents
from study.example_folders import a_study

from nearsight.core import UserError
from nearsight.evaluate.tasks.knn import NEIGHBOURS
from nearsight.runs.records import EVALUATE_FILE
from nearsight.study.analyse.evaluated import (
    EVALUATED,
    evaluated_settings,
    evaluated_values,
    printed_values,
)
from nearsight.study.analyse.loaded import load_study
from nearsight.study.analyse.results import outcomes
from nearsight.study.folder import CELL
from nearsight.study.papers.locat_items import LOCAT_ITEMS


def contents(*results):
    """Return evaluate.json with results: task, method, layer, control, data, name and value."""
    (result,) = evaluate_contents()["results"]
    (number,) = result["numbers"]
    found = []
    for task, method, layer, control, data, name, value in results:
        known = result["data"] | {"name": data}
        settings = {"scale": "cached: features of 224 pixels"} if method == "locat" else {}
        numbers = [number | {"name": name, "value": value}]
        found.append(
            result
            | {"task": task, "method": method, "layer": layer, "control": control}
            | {"data": known, "settings": settings, "numbers": numbers}
        )
    return evaluate_contents(results=found)


LOGREG = ("segmentation", "logreg", 12, None, "voc2012", "mIoU", 0.4)
EARLIER = ("segmentation", "logreg", 5, None, "voc2012", "mIoU", 0.9)
CONTROL = ("segmentation", "logreg", 12, "position only", "voc2012", "mIoU", 0.05)
LOCAT = ("segmentation", "locat", 12, None, "voc2012", "mIoU", 0.5)
OTHER_SET = ("segmentation", "locat", 12, None, "ade20k", "mIoU", 0.2)
NEAREST = ("segmentation", "hummingbird", 12, None, "voc2012", "mIoU", 0.3)
KNN = ("knn", "dino", 12, None, "cifar100", "top1 of 10", 0.6)


def record(*results):
    return EVALUATE_FILE.record(contents(*results))


def test_the_papers_method_counts_before_another_and_the_last_layer_before_an_earlier_one():
    found = record(EARLIER, LOGREG, CONTROL, NEAREST, OTHER_SET)
    assert evaluated_values(found, "voc2012") == {
        "segmentation_miou": 0.4, "hummingbird_miou": 0.3,
    }  # fmt: skip
    settings = evaluated_settings(found, "voc2012")
    assert settings["evaluate.segmentation_miou.method"] == "logreg"
    assert settings["evaluate.segmentation_miou.num_val"] == 7
    assert "evaluate.segmentation_miou.scale" not in settings
    both = record(LOGREG, LOCAT, KNN)
    assert evaluated_values(both, "voc2012") == {"segmentation_miou": 0.5}
    assert evaluated_settings(both, "voc2012")["evaluate.segmentation_miou.scale"] == (
        "cached features"
    )
    assert evaluated_values(both, "cifar100") == {"knn_accuracy": 0.6}


def test_the_columns_of_the_papers_tables_have_their_numbers():
    """Every data set of tables 1, 4, 5 and 8 of LocAt, and every number of neighbours of 3b."""
    context = ("segmentation", "locat", 12, None, "pascal-context", "mIoU", 0.3)
    twenty = ("knn", "dino", 12, None, "cifar100", "top1 of 20", 0.7)
    found = printed_values(
        record(LOGREG, LOCAT, OTHER_SET, context, CONTROL, EARLIER, NEAREST, KNN), "cifar100"
    )
    assert found == {
        "segmentation_miou_voc2012": 0.5, "segmentation_miou_ade20k": 0.2,
        "segmentation_miou_pascal-context": 0.3, "hummingbird_miou_voc2012": 0.3,
        "knn_accuracy_10": 0.6,
    }  # fmt: skip
    both = record(KNN)
    (result,) = both.results
    (more,) = record(twenty).results
    of_two = result.model_copy(update={"numbers": [*result.numbers, *more.numbers]})
    whole = both.model_copy(update={"results": [of_two]})
    assert printed_values(whole, "cifar100") == {"knn_accuracy_10": 0.6, "knn_accuracy_20": 0.7}
    assert printed_values(whole, "voc2012") == {}
    printed = {value for item in LOCAT_ITEMS for value in item.values} - {"accuracy"}
    sets = ("voc2012", "ade20k", "pascal-context", "coco-stuff")
    made = {
        *EVALUATED, *(f"knn_accuracy_{k}" for k in NEIGHBOURS),
        *(f"{name}_{data}" for name in ("segmentation_miou", "hummingbird_miou") for data in sets),
    }  # fmt: skip
    assert printed <= made


@pytest.mark.slow
def test_cells_of_a_recipe_that_evaluates_have_its_numbers(tmp_path: Path):
    out = a_study(tmp_path)
    cells = load_study(out).cells
    for number, each in enumerate(cells):
        cell = json.loads((each.folder / CELL).read_text())
        cell["stages"]["evaluate"] = {"tasks": "hummingbird", "data": "voc2012"}
        (each.folder / CELL).write_text(json.dumps(cell))
        if number:
            value = 0.1 + 0.01 * number
            EVALUATE_FILE.write(each.folder, contents((*NEAREST[:-1], value)))
    first, *others = load_study(out).cells
    assert first.files is None  # its evaluation is missing, so it is not finished
    found = outcomes(load_study(out))
    assert len(found) == len(others)
    assert sorted(x.values["hummingbird_miou"] for x in found) == pytest.approx(
        [0.1 + 0.01 * number for number in range(1, len(cells))]
    )
    assert {x.settings["evaluate.hummingbird_miou.data"] for x in found} == {"voc2012"}
    (others[0].folder / EVALUATE_FILE.name).write_text("{}")
    with pytest.raises(UserError, match=r"evaluate\.json"):
        load_study(out)


def test_cells_that_were_evaluated_by_hand_have_no_such_number(tmp_path: Path):
    out = a_study(tmp_path, leave_out=11)
    each = load_study(out).cells[0]
    EVALUATE_FILE.write(each.folder, contents(NEAREST))
    (found,) = outcomes(load_study(out))
    assert "hummingbird_miou" not in found.values
