"""The compiled sums over rows against the same sums by torch in float64."""

from dataclasses import replace

import pytest
import torch
from measure import toy_models
from native.example_calls import (
    COMPILED,
    LAYOUTS,
    assert_same,
    by_kernel,
    made_call,
    spread_call,
    unfolded,
    widened,
)

from nearsight.measure.capture.interception import AttentionCall
from nearsight.measure.catalogue import DEFAULT_METRICS, metric
from nearsight.measure.layout import windows
from nearsight.measure.layout.geometry import Geometry
from nearsight.measure.layout.tokens import row_by_row
from nearsight.measure.metrics import mathematics
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows import kernel
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model
from nearsight.native import load_library

pytestmark = pytest.mark.skipif(
    load_library() is None, reason="no C compiler when nearsight was installed"
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(kernel, "CHUNK", 101)


def test_the_kernel_has_every_sum_of_the_default_metrics():
    totals = [mathematics(metric(name)).total for name in DEFAULT_METRICS]
    wanted = {part for total in totals for part in total.parts or (total,)}
    assert wanted == {each.total for each in COMPILED}
    assert all(total.kernel for total in wanted)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_are_those_of_torch_in_float64(layout, width, bias):
    assert_same(made_call(LAYOUTS[layout], width, bias=bias), LAYOUTS[layout])


@pytest.mark.parametrize("chunk", [1, 4, 7])  # 7 for 15 queries: parts of 5
def test_any_number_of_chunks_covers_every_query_once(chunk, monkeypatch):
    monkeypatch.setattr(kernel, "CHUNK", chunk)
    assert_same(made_call(LAYOUTS["no prefix"]), LAYOUTS["no prefix"])


@pytest.mark.parametrize("sharpness", [0.2, 3.0])  # logits within the bound, and beyond it
def test_keys_that_exceed_a_cache_are_met_by_more_queries_at_once(sharpness):
    layout = row_by_row(Grid(9, 24), 0)
    call = made_call(layout, width=500, sharpness=sharpness)
    assert call.keys[0, 0].numel() > 100_000  # kernel.c's MANY
    assert_same(call, layout)


def test_half_precision_is_measured_in_float32():
    layout = LAYOUTS["two prefix tokens"]
    assert_same(made_call(layout, dtype=torch.bfloat16), layout)


@pytest.mark.parametrize("sharpness", [0.0, 30.0, 1e4])
def test_flat_and_extreme_logits_neither_overflow_nor_vanish(sharpness):
    layout = LAYOUTS["two prefix tokens"]
    call = made_call(layout, sharpness=sharpness)
    # float32 tells logits of 1e8 apart by 8 only, so a near tie may fall the other way
    assert_same(call, layout, tolerance=1e-5 if sharpness < 1e4 else 1e-2)


@pytest.mark.parametrize("largest", [63.9, 64.1, 90.0])  # in log 2; kernel.c's BOUND is 64
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_right_on_both_sides_of_the_bound(largest, sign):
    layout = LAYOUTS["two prefix tokens"]
    assert_same(spread_call(layout, largest, sign), layout)


def test_keys_hidden_by_a_bias_get_nothing():
    layout = LAYOUTS["no prefix"]
    call = made_call(layout, bias=True)
    call.mask[:, :, 4:] = -torch.inf
    call.mask[1, :, 3] = torch.finfo(torch.float32).min
    assert_same(call, layout)


def test_queries_whose_numbers_lie_apart_are_read_right():
    layout = LAYOUTS["no prefix"]
    call = made_call(layout, width=7)
    apart = call.queries.transpose(2, 3).contiguous().transpose(2, 3)
    assert apart.stride(-1) != 1
    other = replace(call, queries=apart)
    geometry = Geometry(layout, torch.device("cpu"))
    for one, two in zip(by_kernel(call, layout, geometry), by_kernel(other, layout, geometry)):
        assert torch.equal(one, two)


def test_the_number_of_threads_changes_no_bit():
    layout, before = LAYOUTS["several chunks"], torch.get_num_threads()
    call, geometry = made_call(layout), Geometry(layout, torch.device("cpu"))
    try:
        torch.set_num_threads(1)
        alone = by_kernel(call, layout, geometry)
        torch.set_num_threads(3)
        together = by_kernel(call, layout, geometry)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(alone, together))


def test_what_the_kernel_cannot_do_is_left_to_torch():
    layout = LAYOUTS["two prefix tokens"]
    geometry = Geometry(layout, torch.device("cpu"))
    call = made_call(layout)
    assert kernel.row_sums(unfolded(widened(call), layout), geometry) is None
    seen = torch.ones(call.sizes, dtype=torch.bool)
    for mask in (seen, seen.bfloat16(), torch.zeros(37, 1)):  # the last is the same for every key
        assert kernel.row_sums(unfolded(replace(call, mask=mask), layout), geometry) is None
    shared = replace(call, keys=call.keys[:1])
    assert kernel.row_sums(unfolded(shared, layout), geometry) is None
    made = AttentionCall((), (), call.values, call.output, weights_made=seen.float())
    assert kernel.row_sums(unfolded(made, layout), geometry) is None
    tokens = windows.blocks(windows.pad_to_windows(windows.indices(Grid(5, 7)), (3, 3)), (3, 3))
    padded = windows.window_layout(Grid(5, 7), tokens)
    geometry = Geometry(padded, torch.device("cpu"))
    assert kernel.row_sums(unfolded(made_call(padded), padded), geometry) is None


@pytest.mark.slow
@pytest.mark.parametrize("make", ["plain", "pooled", "locat"])
def test_a_profile_is_the_same_without_the_kernel(make, monkeypatch):
    if make == "locat":
        torch.manual_seed(5)
        model, images = create_model("mu_locat", 7), toy_models.images(32, 32, count=3)
    else:
        model, images = getattr(toy_models, make)(), toy_models.images(24, 40, count=3)
        images = toy_models.images(12, 20, count=3) if make == "plain" else images
    compiled = measure_model(model, images)
    monkeypatch.setattr(kernel, "load_library", lambda: None)
    plain = measure_model(model, images)
    for name, estimates in plain.metrics.items():
        for ours, theirs in zip(compiled.metrics[name].values, estimates.values, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6), name
