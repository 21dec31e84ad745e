"""The attended area: solved by hand, by loops, in windows, and shown wherever metrics are."""

import csv
import json
import math

import pytest
import torch
from made_data import write_image
from measure import toy_models
from report.example_runs import write_pair
from study.example_folders import a_study

from nearsight import capture_attention
from nearsight.explore import write_report
from nearsight.measure.metrics.attended_area import attended_area
from nearsight.measure.profile.nulls import null_lines
from nearsight.measure.profile.profile import measure_model
from nearsight.models.layers.grid import Grid
from nearsight.study.folder import cell_folder, read_cells
from nearsight.study.show.study_page import study_report


def share_of(row, num_keys):
    """By a loop: patches from the largest weight down until they hold 90 %."""
    held = 0.0
    for count, weight in enumerate(sorted(row, reverse=True), 1):
        held += weight / sum(row)
        if held >= 0.9 - 1e-6:
            return count / num_keys
    raise AssertionError("weights that do not sum to one")


def test_uniform_attention_needs_nine_tenths_of_the_patches_rounded_up():
    for rows, cols in [(2, 5), (3, 5), (5, 7)]:
        num = rows * cols
        found = attended_area(torch.full((1, 1, num, num), 1 / num)).item()
        assert found == pytest.approx(math.ceil(0.9 * num) / num, abs=1e-12)


def test_a_patch_that_looks_at_one_patch_attends_to_one():
    assert attended_area(torch.eye(7).roll(2, 0)[None, None]).item() == pytest.approx(1 / 7)


def test_the_lines_to_compare_with_are_counted_by_hand():
    # 3x5: 4 corners see 4 patches, 8 borders 6, 3 inner ones 9; nine tenths of each are all of them
    lines = null_lines(Grid(3, 5), ["attended_area"])
    assert lines["uniform_attended_area"] == pytest.approx(14 / 15)
    assert lines["box_attended_area"] == pytest.approx((4 * 4 + 8 * 6 + 3 * 9) / 15 / 15)
    assert "box_attended_area" not in null_lines(Grid(3, 5))


@pytest.mark.slow
def test_a_model_is_measured_as_a_loop_over_its_rows_says():
    model, images = toy_models.plain(), toy_models.images(12, 20, count=2)
    profile = measure_model(model, images, metrics="attended_area")
    assert list(profile.metrics) == ["attended_area"]
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    for layer, tokens in enumerate(maps):
        for image in range(2):
            for head, rows in enumerate(tokens[image, :, 2:, 2:].double().tolist()):
                expected = sum(share_of(row, 15) for row in rows) / 15
                found = profile.attended_area.values[layer][image, head]
                assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_in_windows_a_row_can_attend_to_its_window_without_the_padding():
    model, images = toy_models.windows(), toy_models.images(20, 28, count=2)
    profile = measure_model(model, images, metrics="attended_area")
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    # not shifted: windows of 3x3 on 5x7 patches, cut to 2 rows below and 1 column on the right
    sizes = [(3 if row < 3 else 2) * (3 if col < 6 else 1) for row in range(5) for col in range(7)]
    rows = maps[0][1, 2].double().tolist()
    expected = sum(share_of(row, size) for row, size in zip(rows, sizes, strict=True)) / 35
    assert profile.attended_area.values[0][1, 2] == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_the_terminal_shows_it_where_it_was_asked_for(nearsight, tmp_path):
    for index in range(3):
        write_image(tmp_path / "pictures" / f"{index}.png", (41, 37), seed=index)
    words = ("measure", "mu", "--random-init", "--images", "pictures", "--out", "out")
    code, out, _ = nearsight(*words, "--metrics", "attended_area")
    assert code == 0
    measured = json.loads((tmp_path / "out" / "measure.json").read_text())
    mean = measured["summary"]["mean_attended_area"]["value"]
    heads = [x for layer in measured["layers"] for x in layer["attended_area"]["mean"]]
    assert mean == pytest.approx(sum(heads) / len(heads), abs=1e-12)
    assert measured["null"]["random_init"]["layer_mean_attended_area"][0] < 1
    assert "attended" in out.splitlines()[0] + out.splitlines()[1]
    assert f"{mean:.3f}" in out
    assert max(map(len, out.splitlines()[:8])) <= 80


def with_area(folder, value):
    """As if it had been measured: the same for every head."""
    path = folder / "measure.json"
    measured = json.loads(path.read_text())
    entry = {"value": value, "low": value - 0.01, "high": value + 0.01}
    for layer, heads in zip(measured["layers"], measured["num_heads"]):
        layer["attended_area"] = {
            "mean": [value] * heads, "low": [value - 0.01] * heads,
            "high": [value + 0.01] * heads, "sd": [0.1] * heads,
        }  # fmt: skip
    measured["summary"]["mean_attended_area"] = entry
    measured["summary"]["layer_mean_attended_area"] = [entry] * measured["num_layers"]
    measured["null"] |= {"uniform_attended_area": 14 / 15, "box_attended_area": 0.404}
    path.write_text(json.dumps(measured))


@pytest.mark.slow
def test_the_report_has_it_in_its_page_and_files(tmp_path):
    one, other = write_pair(tmp_path / "runs")
    with_area(one, 0.3125)
    page = write_report([one, other], tmp_path / "page.html", ("csv",)).read_text()
    assert "mean attended area" in page
    assert "holds 90 % of a patch" in page
    assert "0.312" in page
    assert "0.933" in page  # uniform attention
    tables = [path.read_text() for path in (tmp_path / "page-files").glob("*.csv")]
    read = [list(csv.DictReader(text.splitlines())) for text in tables]
    found = [row["attended_area"] for rows in read for row in rows if "attended_area" in row]
    assert {float(x) for x in found if x} == {0.3125}
    assert "" in found  # the other run was measured without it


@pytest.mark.slow
def test_a_study_has_effects_on_it(tmp_path):
    out = a_study(tmp_path / "study")
    for cell in read_cells(out):
        with_area(cell_folder(out, cell), 0.5 - 0.125 * cell.factors["cutmix"] + 0.01 * cell.seed)
    page = study_report(out, tmp_path / "page.html").read_text()
    assert "Effects on mean attended area" in page
    summary = json.loads((out / "summary.json").read_text())
    (effects,) = [x["effects"] for x in summary["effects"] if x["value"] == "attended_area"]
    (cutmix,) = [x for x in effects if x["factors"] == ["cutmix"]]
    assert cutmix["estimate"]["value"] == pytest.approx(-0.125)
