"""The report with the explorer inside: pictures of attention, and tables that sort."""

import csv
import io
import json
import re
import subprocess
import sys
import urllib.parse

import numpy as np
import pytest
from explore.made_pages import captured, made_images
from explore.made_runs import write_looked_run
from measure import toy_models

import nearsight as ns
from nearsight.explore.embedding import embedded_explorer
from nearsight.explore.shown_model import subject_of_folder
from nearsight.measure.readouts import capture_examples
from nearsight.models.layers.grid import Grid
from nearsight.report.read import read_families
from nearsight.runs.records import EXAMPLES_FILE


def write_shown(folder, name="baseline", seed=0):
    """A run of two layers and heads on 3x5 patches, with examples of the toy model."""
    write_looked_run(folder, name, seed, depth=2, heads=2, grid=Grid(3, 5))
    images = made_images("plain")
    examples = capture_examples(toy_models.plain(), images.inputs, images.pixels, images.names)
    EXAMPLES_FILE.write(folder, examples.contents())
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("shown")
    return [write_shown(root / name, name) for name in ("baseline", "baseline+cutmix")]


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    return ns.write_report(runs, tmp_path_factory.mktemp("report") / "report.html", ("csv",))


def test_the_report_has_the_explorer_of_its_runs(browser, report):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    requests, told = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(report.as_uri())
    page.locator("#explorer iframe").scroll_into_view_if_needed()
    frame = page.frame_locator("#explorer iframe")
    frame.locator("text=Layer 1, head 1").first.wait_for()
    assert frame.locator("section.model").count() == 2
    inner = next(each for each in page.frames if each.url == "about:srcdoc")
    inner.evaluate("nearsight.state.readAddress('#l=2&h=1&p=7')")
    row = np.array(inner.evaluate("nearsight.row(0, 1, 0)"))
    exact = captured("plain")[1][0, 2 + 7].numpy()
    assert np.abs(row - exact).max() <= exact.max() / 255
    outside = [url for url in requests if not url.startswith(("data:", "blob:", "about:"))]
    assert outside == [report.as_uri()]
    assert told == []
    context.close()


@pytest.mark.slow
def test_maps_of_the_examples_hold_the_captured_weights(report, runs):
    (family,) = read_families(runs)
    rows = list(
        csv.DictReader(
            io.StringIO((report.with_name("report-files") / "examples-last.csv").read_text())
        )
    )
    assert {row["condition"] for row in rows} == {c.label for c in family.conditions}
    for number, name in enumerate(made_images("plain").names):
        weights = captured("plain", number)[1].mean(0)[2 + 1 * 5 + 2, 2:].numpy()
        expected = weights / weights.sum() * 15
        seen = [float(row["times_uniform"]) for row in rows if row["image"] == name][:15]
        assert seen == pytest.approx(expected, abs=0.05)
    assert report.read_text().count('id="examples-local') >= 1


@pytest.mark.slow
def test_the_most_local_head_is_the_one_of_measure_json(report, runs):
    text = re.sub("(?s)<iframe.*?</iframe>", "", report.read_text())
    for run in runs:
        least = json.loads((run / "measure.json").read_text())["summary"]["min_mad"]
        assert f"layer {least['layer']}, head {least['head']}" in text


def test_tables_of_the_report_sort_by_their_headings(browser, report):
    page = browser.new_page()
    page.goto(report.as_uri())
    table = page.locator("table.summary")
    button = table.locator("thead button", has_text="min MAD")

    def column():
        cells = table.locator("tbody tr:not(.null)").evaluate_all(
            "all => all.map(row => parseFloat(row.cells[2].innerText))"
        )
        return cells

    number = table.locator("thead th").all_inner_texts().index("min MAD")
    assert number == 2
    button.click()
    first = column()
    assert first == sorted(first)
    button.click()
    assert column() == sorted(first, reverse=True)
    assert first != column()
    last = table.locator("tbody tr").evaluate_all("all => all.slice(-2).map(x => x.className)")
    assert last == ["null", "null"]
    page.close()


@pytest.mark.slow
def test_a_report_without_examples_has_no_explorer(tmp_path):
    run = write_looked_run(tmp_path / "run")
    assert embedded_explorer(read_families([run])) is None
    page = ns.write_report([run], tmp_path / "r.html").read_text()
    assert "<iframe" not in page
    assert 'id="examples' not in page


@pytest.mark.slow
def test_a_report_that_would_be_too_large_shows_fewer_images_and_then_fewer_models(
    runs, monkeypatch
):
    images = subject_of_folder(runs[0]).examples["images"]
    families = read_families(runs)
    one = max(len(json.dumps([image])) for image in images) + 2
    for room, expected in ((7 * one, [3, 3]), (4 * one, [2, 2]), (2 * one, [1, 1]), (one, [1])):
        monkeypatch.setattr("nearsight.explore.shown_model.MOST_BYTES", room)
        found = embedded_explorer(families)
        assert [len(x.examples["images"]) for x in found.subjects] == expected


@pytest.mark.slow
def test_a_report_with_an_explorer_needs_no_torch(runs, tmp_path):
    out = tmp_path / "r.html"
    code = (
        "import sys, nearsight as ns\n"
        f"ns.write_report({[str(run) for run in runs]!r}, {str(out)!r})\n"
        "assert not {'torch', 'torchvision', 'timm', 'fastapi'} & set(sys.modules)\n"
    )
    code = code.replace(
        repr([str(run) for run in runs]),
        f"[__import__('pathlib').Path(x) for x in {[str(run) for run in runs]!r}]",
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "srcdoc" in out.read_text()


@pytest.mark.slow
def test_the_csv_behind_the_maps_is_in_the_page(report):
    link = re.search(
        r'href="data:text/csv[^"]*?,([^"]*)" download="examples-local.csv"', report.read_text()
    )
    if link:
        assert urllib.parse.unquote(link[1]).startswith("condition,image,row,column,times_uniform")
    assert 'download="examples-local.csv"' in report.read_text()
