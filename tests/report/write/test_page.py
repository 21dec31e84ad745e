"""The page: its words, its files, what it refuses."""

import base64
import csv
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from report.example_runs import write_pair, write_run
from runs.made_records import evaluate_contents

from nearsight.core import UserError
from nearsight.explore import write_report
from nearsight.models.layers.grid import Grid
from nearsight.report.figures.drawing import spread
from nearsight.report.write.terminal_table import print_measurements
from nearsight.runs.records import EVALUATE_FILE, RECORDS

pytestmark = pytest.mark.slow  # draws whole pages or trains

ALL_FORMATS = ("svg", "png", "pdf", "csv", "json", "latex")


class Page(HTMLParser):
    """Ids, links and SVG text of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.sources, self.open_svg, self.svg_text = [], {}, [], 0, []
        self.tags = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.add(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "download" in given:
            self.links[given["download"]] = given["href"]
        self.sources += [given[key] for key in ("src", "href", "xlink:href") if key in given]
        self.open_svg += tag == "svg"

    def handle_endtag(self, tag):
        self.open_svg -= tag == "svg"

    def handle_data(self, data):
        if self.open_svg and data.strip():
            self.svg_text.append(data.strip())

    def file(self, name):
        return base64.b64decode(self.links[name].split("base64,")[1])


@pytest.fixture(scope="module")
def pair_page(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    runs = write_pair(root)
    text = write_report(runs, root / "report.html").read_text()
    return runs, text, Page(text)


def test_the_first_sentence_of_one_seed_makes_no_claim(pair_page):
    _, text, _ = pair_page
    first = re.search(r'<p class="answer">(.*?)</p>', text, re.DOTALL).group(1)
    assert "One seed is not enough for a claim." in first


def test_the_page_points_to_nothing_outside_itself(pair_page):
    _, text, page = pair_page
    assert all(source.startswith(("#", "data:")) for source in page.sources)
    assert not re.search(r"@import|url\((?!#)", text)


def test_ids_are_unique_though_many_figures_stand_in_one_page(pair_page):
    _, text, page = pair_page
    assert len(page.ids) == len(set(page.ids)) > 100
    used = re.findall(r"(?:url\(|href=\")#([\w-]+)", text)
    assert used
    assert set(used) <= set(page.ids)


def test_figure_text_is_text(pair_page):
    _, _, page = pair_page
    for words in ("Layer 1", "Layer 5", "uniform", "3x3 box", "MAD (grid diagonals)", "layer"):
        assert words in page.svg_text


def test_downloaded_heads_are_those_of_measure_json(pair_page):
    runs, _, page = pair_page
    rows = list(csv.DictReader(io.StringIO(page.file("heads.csv").decode())))
    for run, condition in zip(runs, ("baseline", "baseline with CutMix")):
        measured = json.loads((run / "measure.json").read_text())
        mine = [row for row in rows if row["condition"] == condition]
        found = [float(row["mad"]) for row in mine]
        assert found == [value for layer in measured["layers"] for value in layer["mad"]["mean"]]


def test_the_data_behind_a_figure_is_what_it_shows(pair_page):
    runs, _, page = pair_page
    rows = list(csv.DictReader(io.StringIO(page.file("mad-profiles.csv").decode())))
    measured = json.loads((runs[1] / "measure.json").read_text())
    mine = [r for r in rows if r["condition"] == "baseline with CutMix" and r["layer"] == "1"]
    assert [float(r["mad"]) for r in mine] == sorted(measured["layers"][0]["mad"]["mean"])
    assert {r["layer"] for r in rows} == {"1", "2", "4", "5"}


def test_table_numbers_are_those_of_measure_json(pair_page):
    runs, text, _ = pair_page
    table = re.search(r'<table class="summary">.*?</table>', text, re.DOTALL).group()
    for run in runs:
        summary = json.loads((run / "measure.json").read_text())["summary"]
        for entry in (summary["min_mad"], summary["mean_entropy"], summary["mean_self_mass"]):
            assert f"<span>{entry['value']:.3f}</span>" in table
            assert f"{entry['low']:.3f} to {entry['high']:.3f}" in table
    assert "<b>" not in table


def test_differences_against_baseline_and_assumed_values_are_marked(pair_page):
    _, text, _ = pair_page
    row = re.search(r"<tr>(?:(?!</tr>).)*cutmix\.probability.*?</tr>", text).group()
    assert "assumed" in row
    assert "<td>off</td><td>off</td><td><b>0.5</b></td>" in row
    assert "<code>nearsight train baseline+cutmix --seed 0</code>" in text


def test_alt_texts_state_the_finding(pair_page):
    runs, text, _ = pair_page
    summary = json.loads((runs[1] / "measure.json").read_text())["summary"]
    labels = re.findall(r'aria-label="([^"]*)"', text)
    assert len(labels) == 5
    assert f"baseline with CutMix from {summary['layer_mean_mad'][0]['value']:.3f}" in labels[0]
    assert f"baseline with CutMix {summary['min_mad']['value']:.3f}" in labels[1]


def test_the_same_runs_give_the_same_bytes(pair_page, tmp_path):
    runs, text, _ = pair_page
    assert write_report(runs, tmp_path / "again.html").read_text() == text


def test_formats_are_written_as_files(tmp_path):
    runs = write_pair(tmp_path / "runs", seeds=(0, 1, 2))
    out = write_report(runs, tmp_path / "deep" / "five.html", ALL_FORMATS)
    folder = tmp_path / "deep" / "five-files"
    names = {path.name for path in folder.iterdir()}
    for figure in (
        "depth",
        "mad-profiles",
        "mad-entropy-plane",
        "head-heatmaps",
        "learning-curves",
    ):
        assert {f"{figure}.{kind}" for kind in ("svg", "png", "pdf", "csv")} <= names
    assert (folder / "mad-profiles.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "mad-profiles.pdf").read_bytes().startswith(b"%PDF")
    assert b"<text" in (folder / "mad-profiles.svg").read_bytes()
    assert len(json.loads((folder / "report.json").read_text())["conditions"]) == 2
    page = Page(out.read_text())
    assert page.file("head-heatmaps.png") == (folder / "head-heatmaps.png").read_bytes()
    assert "<b>" in re.search(r'<table class="summary">.*?</table>', out.read_text(), re.S).group()
    table = (folder / "conditions.tex").read_text()
    assert r"mu\_vit on shapes" in table
    assert r"\textbf{" in table
    rows = [line for line in table.splitlines() if line.endswith(r"\\") and "&" in line]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {9}
    for special in "_%#$":
        assert not re.search(rf"(?<!\\)\{special}", table.split("\n", 1)[1].replace("$n$", ""))


def test_runs_of_different_depth_grid_and_data_stand_in_one_page(tmp_path):
    runs = [
        write_run(tmp_path / "a", depth=2, heads=1),
        write_run(tmp_path / "b", depth=13, heads=11, grid=Grid(5, 7), model="vit_x<y>"),
        *write_pair(tmp_path, seeds=(0, 1)),
    ]
    text = write_report(runs, tmp_path / "report.html").read_text()
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert text.count('<p class="answer">') == 3
    assert "vit_x&lt;y&gt; on shapes, 5x7 patches" in text
    assert "<y>" not in text


def test_names_cannot_command_the_page_or_its_figures(tmp_path):
    """Dollar signs would be mathematics in a figure, braces a template, tags HTML."""
    name = "a$\\frac$b{{ 7 * 7 }}<i>"
    run = write_run(tmp_path / "a", model=name)
    page = Page(write_report([run], tmp_path / "report.html", ("csv",)).read_text())
    assert "i" not in page.tags
    rows = list(csv.DictReader(io.StringIO(page.file("conditions.csv").decode())))
    assert [row["model"] for row in rows] == [name]
    assert (
        name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        in page.file("depth.svg").decode()
    )


def test_a_finished_run_without_its_log_is_refused_by_name(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "train.jsonl").unlink()
    with pytest.raises(UserError, match=r"a/train\.jsonl"):
        write_report([run], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_is_not_measured_says_what_to_do(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "measure.json").unlink()
    with pytest.raises(UserError, match=f"nearsight measure {run}"):
        write_report([run], tmp_path / "report.html")
    with pytest.raises(UserError, match=f"nearsight measure {run}"):
        print_measurements([run])


def test_a_run_that_has_not_finished_is_refused(tmp_path):
    run = write_run(tmp_path / "a")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(UserError, match=str(run)):
        write_report([run], tmp_path / "report.html")


@pytest.mark.parametrize("part", ["summary", "layers", "num_images", "null", "grid", "num_heads"])
def test_a_measurement_that_lacks_a_part_is_named(tmp_path, part):
    run = write_run(tmp_path / "a")
    measured = json.loads((run / "measure.json").read_text())
    del measured[part]
    (run / "measure.json").write_text(json.dumps(measured))
    with pytest.raises(UserError, match=rf"{run}/measure\.json .*\b{part}\b.*nearsight measure"):
        write_report([run], tmp_path / "report.html")


def test_a_cut_off_measurement_is_named(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "measure.json").write_text((run / "measure.json").read_text()[:99])
    with pytest.raises(UserError, match=r"/measure\.json .*\bJSON\b.*nearsight measure"):
        write_report([run], tmp_path / "report.html")


def test_no_runs_unknown_formats_and_unwritable_places_are_refused(tmp_path):
    run, folder = write_run(tmp_path / "a"), tmp_path / "folder.html"
    folder.mkdir()
    with pytest.raises(UserError, match=r"\brun folder\b"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match=r"docx.*svg"):
        write_report([run], tmp_path / "report.html", ("docx",))
    with pytest.raises(UserError, match=str(run / "run.json" / "report.html")):
        write_report([run], run / "run.json" / "report.html")
    with pytest.raises(UserError, match=f"{folder}.*folder"):
        write_report([run], folder)
    with pytest.raises(UserError, match=r"report\.pdf.*\.html"):
        write_report([run], tmp_path / "report.pdf")


@pytest.mark.processes
def test_the_report_needs_no_torch(tmp_path):
    run = write_run(tmp_path / "a")
    code = (
        "import sys; from pathlib import Path\n"
        "from nearsight.explore import write_report\n"
        "from nearsight.report.write.terminal_table import print_measurements\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"write_report([Path({str(run)!r})], Path({str(tmp_path / 'r.html')!r}))\n"
        f"print_measurements([Path({str(run)!r})])\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_terminal_table_fits_80_columns_and_has_the_null_lines(tmp_path, capsys):
    runs = [
        write_run(tmp_path / "a", "modern-labelsmoothing"),
        write_run(tmp_path / "b", depth=13, grid=Grid(5, 7)),
    ]
    print_measurements(runs)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    text = "\n".join(lines)
    measured = json.loads((runs[0] / "measure.json").read_text())
    row = next(line for line in lines if line.startswith("  layer 3"))
    values = measured["layers"][2]["mad"]["mean"]
    assert f"{min(values):.3f}" in row
    assert f"{sum(values) / len(values):.3f}" in row
    assert "█" in row
    assert f"{Grid(3, 5).box_distance():.3f}" in text
    assert "uniform attention, 5x7" in text
    assert "71.0%" not in text
    assert "70.0%" in text


def test_the_table_of_an_evaluation_has_its_title_and_its_note_on_the_page(tmp_path):
    run = write_run(tmp_path / "run")
    EVALUATE_FILE.write(run, evaluate_contents())
    np.savez(run / RECORDS, **{"01": np.ones((7, 3, 3))})
    text = write_report([run], tmp_path / "report.html").read_text()
    assert "<h3>segmentation, logreg</h3>" in text
    assert "95 % intervals over 7 images of voc; 11 training images. c: 1.0" in text


@pytest.mark.parametrize("heights", [[0.5, 0.52, 0.51], [0.1, 0.9], [0.3, 0.3, 0.3, 0.31], [0.2]])
def test_names_at_line_ends_keep_apart_and_in_order(heights):
    places = spread(heights, 0.1)
    ranked = sorted(range(len(heights)), key=lambda i: heights[i])
    for below, above in pairwise(ranked):
        assert places[above] - places[below] > 0.0999
    assert sum(places) == pytest.approx(sum(heights), abs=1e-5)
