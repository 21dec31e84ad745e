"""What parts have learned, as figures and tables ask for it."""

from pathlib import Path

import pytest

from nearsight.core import UserError
from nearsight.report.read import Gates, Gaussians, Learned
from nearsight.report.read.part_records import read_learned
from nearsight.runs.records import MEASURE_FILE

GATE = {"gate": [0.25, 0.75, 0.5], "centre": [[-1.0, 2.0], None, None], "span": [0.5, None, None]}
SPREAD = {"mean": 1.5, "low": 1.25, "high": 1.75, "percentiles": [0.5, 1.0, 1.5, 2.0, 2.5]}
GAUSSIAN = {"deviation": SPREAD, "strength": SPREAD, "largest": 3.0, "near_bounds": [0.0, 0.1]}


def learned(*layers):
    entries = {key: [layer.get(key) for layer in layers] for key in ("gaussian", "gpsa")}
    return read_learned(entries, 7, MEASURE_FILE, Path("runs/a"), "layers")


def test_a_model_without_parts_has_learned_nothing():
    found = learned({}, {"mad": 1.0})
    assert not found
    assert found.layers(Gates) == found.layers(Gaussians) == found.titles_without(0) == []


def test_each_layer_has_its_own_of_each_part_and_none_where_it_has_no_such_part():
    found = learned({"gpsa": GATE}, {"gaussian": GAUSSIAN}, {})
    first, second, third = found.layers(Gates)
    assert (first.gate, first.centre[0], second, third) == (
        [0.25, 0.75, 0.5],
        (-1.0, 2.0),
        None,
        None,
    )
    width = found.layers(Gaussians)[1].deviation
    assert (width.mean.value, width.mean.n, width.percentiles[3]) == (1.5, 7, 2.0)
    assert [found.titles_without(layer) for layer in range(3)] == [
        ["GAug"],
        ["GPSA"],
        ["GAug", "GPSA"],
    ]


def test_a_damaged_entry_names_file_and_field():
    with pytest.raises(UserError, match=r"layers\.gpsa") as raised:
        learned({"gpsa": GATE | {"span": "wide"}})
    assert MEASURE_FILE.name in str(raised.value)


def test_nothing_learned_is_false_so_that_plain_models_can_be_told():
    assert not Learned({})
    assert Learned({Gates: [None]})
