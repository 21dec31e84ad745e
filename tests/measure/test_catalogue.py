"""The catalogue of metrics: complete, true to the mathematics, and the same in the docs."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
from measure import toy_models

import nearsight
from nearsight.measure.catalogue import CATALOGUE, DEFAULT_METRICS, METRIC_NAMES, RUN_NUMBERS
from nearsight.measure.metrics import RowMetric, entropy, mathematics, metric_of_attention
from nearsight.measure.profile import measure_model
from nearsight.models.layers import Grid

DOCS = Path(__file__).parents[2] / "docs" / "measure.md"


def documented():
    """Name and unit of every metric in the tables of heads and of layers."""
    text = DOCS.read_text().partition("## What is measured")[2].partition("## Null lines")[0]
    _, heads, layers = text.split("| name | definition |")
    row = re.compile(r"^\| `(\w+)` \| .* \| ([^|]+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
    return row.findall(heads), row.findall(layers)


def test_the_docs_have_every_metric_with_its_unit():
    for rows, per in zip(documented(), ("head", "layer")):
        entries = [x for x in CATALOGUE if x.per == per]
        assert sorted(name for name, _ in rows) == sorted(x.name for x in entries)
        units = dict(rows)
        assert all(units[x.name].startswith(x.unit) for x in entries)


def test_the_first_metrics_in_the_docs_are_the_default():
    assert len(DEFAULT_METRICS) == 6
    assert "The first six are measured by default" in DOCS.read_text()
    assert tuple(name for name, _ in documented()[0][:6]) == DEFAULT_METRICS


@pytest.mark.parametrize("entry", CATALOGUE, ids=METRIC_NAMES)
def test_a_pure_function_is_documented_and_public(entry):
    function = getattr(import_module(entry.home), entry.pure_function)
    assert ">>>" in function.__doc__
    assert inspect.unwrap(getattr(nearsight, entry.pure_function)) is inspect.unwrap(function)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 30.0])
def test_values_lie_within_the_limits_and_on_their_axis(sharpness):
    torch.manual_seed(3)
    grid = Grid(3, 5)
    attention = (sharpness * torch.randn(2, 3, 15, 15).double()).softmax(-1)
    for entry in CATALOGUE:
        if isinstance(mathematics(entry), RowMetric) and entry.name != "sink":
            values = metric_of_attention(entry, attention, grid)
            assert entry.outside(values.min().item(), values.max().item()) is None, entry.name
            assert entry.top is None or values.max() <= entry.limits[1] + 1e-9


def test_the_numbers_of_a_run_are_scores_then_those_of_the_paper_and_new_ones_follow():
    names = [x.name for x in RUN_NUMBERS]
    assert names[:2] == ["accuracy", "test_knn_accuracy"]  # a run has one of the two
    assert names[2:6] == ["min_mad", "layer1_mad", "entropy", "self_mass"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("error", "told"), [(-1.5e22, "-1.5e"), (3.0, "3")])
def test_a_value_that_no_attention_can_give_is_refused_by_name(monkeypatch, error, told):
    known = entropy.ENTROPY
    broken = RowMetric(known.total, lambda total, at: 0 * known.value(total, at) + error)
    monkeypatch.setattr(entropy, "ENTROPY", broken)
    with pytest.raises(
        nearsight.core.UserError, match=rf"^entropy in the attention of layer .*attn.* is {told}"
    ):
        measure_model(toy_models.plain(), toy_models.images(12, 20))


def test_rounding_beyond_a_limit_is_no_reason_to_refuse(monkeypatch):
    known = entropy.ENTROPY
    rounded = RowMetric(known.total, lambda total, at: 0 * known.value(total, at) - 1e-6)
    monkeypatch.setattr(entropy, "ENTROPY", rounded)
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20))
    assert profile.entropy.mean[0][0] == pytest.approx(-1e-6)
