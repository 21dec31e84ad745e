"""Reports and tables of models that were measured, never trained here."""

import csv
import io
import json
import re

import pytest
from report.example_runs import NUM_IMAGES, write_model, write_run

from nearsight.core import UserError
from nearsight.explore import write_report
from nearsight.models.layers.grid import Grid
from nearsight.report.read.grouping import read_families
from nearsight.report.write.changes import print_difference
from nearsight.report.write.terminal_table import print_measurements
from nearsight.runs import read_measure
from nearsight.runs.records import DIFF_FILE

RANDOM = {"from": "random initialisation", "seed": 0}


def words(text):
    """The text of a page without its tags, in single spaces."""
    return " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split())


def table(path, name):
    text = (path.with_name(f"{path.stem}-files") / f"{name}.csv").read_text()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
def test_a_page_of_a_model_speaks_of_no_training_and_answers_with_its_head(tmp_path):
    folder = write_model(tmp_path / "a")
    page = write_report([folder], tmp_path / "r.html", ("csv", "json", "latex"))
    text = words(page.read_text())
    least = json.loads((folder / "measure.json").read_text())["summary"]["min_mad"]
    assert "How local is attention in vit_made?" in text
    assert (
        f"The most local head of vit_made is head {least['head']} of layer {least['layer']}, with "
        f"MAD {least['value']:.3f}" in text
    )
    assert not re.search(r"accuracy|[Ss]eed|for a claim|Baseline", text.split("How to read")[0])
    (row,) = table(page, "conditions")
    assert row["seeds"] == ""
    assert float(row["min_mad"]) == least["value"]
    assert "accuracy" not in row
    assert {head["seed"] for head in table(page, "heads")} == {""}


@pytest.mark.slow
def test_the_page_says_where_a_model_came_from(tmp_path):
    page = write_report([write_model(tmp_path / "a")], tmp_path / "r.html")
    text = words(page.read_text())
    for part in (
        "w.safetensors, sha256 0123456789abcdef. pos_embed was resampled",
        f"{NUM_IMAGES} of 101 in pictures, hash 8899aabbccddeeff",
        "short side to 248 (bicubic), middle 224x224; mean 0.5, 0.5, 0.5, deviation 0.25",
        "not measured: head.pool (one query).",
        "nearsight measure vit_made --images pictures",
    ):
        assert part in text


def test_models_of_one_geometry_share_figures_and_twins_go_by_their_folders(tmp_path):
    folders = [
        write_model(tmp_path / "a", seed=1),
        write_model(tmp_path / "b", seed=2, weights=RANDOM),
        write_model(tmp_path / "c", name="deit_made", seed=3),
        write_model(tmp_path / "d", name="wide", heads=7),
    ]
    families = read_families(folders)
    labels = [[condition.label for condition in family.conditions] for family in families]
    assert labels == [["a", "b (untrained)", "deit_made"], ["wide"]]
    assert families[0].name == "2 models on pictures, 3x5 patches"
    assert {c.marker for family in families for c in family.conditions} == {"s"}


def test_a_measurement_given_twice_is_refused(tmp_path):
    folders = [write_model(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(UserError, match="{} and {}".format(*folders)):
        read_families(folders)


@pytest.mark.slow
def test_runs_and_models_stand_in_one_report(tmp_path):
    folders = [write_run(tmp_path / "run"), write_model(tmp_path / "model")]
    page = write_report(folders, tmp_path / "r.html", ("csv", "latex"))
    text = words(page.read_text())
    assert "How local is attention in 2 runs and models?" in text
    run, model = table(page, "conditions")
    assert float(run["accuracy"]) == 0.6
    assert model["accuracy"] == ""
    latex = (tmp_path / "r-files" / "conditions.tex").read_text()
    assert latex.count("--") == 1


@pytest.mark.slow
def test_every_stage_has_the_null_lines_of_its_own_grid(tmp_path, capsys):
    folder = write_model(tmp_path / "a", grids=(Grid(8, 8), Grid(2, 2)))
    text = words(write_report([folder], tmp_path / "r.html").read_text())
    assert "8x8, 2x2 patches" in text
    assert "On 2x2 patches uniform attention has MAD 0.604" in text
    assert read_families([folder])[0].first.null(4)["uniform_mad"] == pytest.approx(
        0.6036, abs=1e-4
    )
    print_measurements([folder])
    out = capsys.readouterr().out
    assert "layer 5, 2x2" in out
    assert re.search(r"uniform attention, 2x2 +0\.604", out)
    assert max(map(len, out.splitlines())) <= 80


MEAN = {"value": 0.25, "low": 0.2, "high": 0.3}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"convention": {"name": "pixels", "unit": "pixels"}},
            r"\bpixels\b.*--convention paper",
        ),
        (
            {"summary": {"mean_mad": MEAN}},
            r"\bentropy, self_mass\b.*--metrics default",
        ),
        ({"summary": 3}, r"/measure\.json .*\bsummary\b.*\b3\b"),
        ({"schema_version": 4}, "schema_version 4, .* reads 1 or 2 or 3"),
    ],
)
def test_what_a_report_cannot_use_is_said(changes, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        read_families([write_model(tmp_path / "a", **changes)])


@pytest.mark.slow
def test_a_measurement_of_the_first_version_is_still_read(tmp_path):
    folder = write_run(tmp_path / "old")
    measured = json.loads((folder / "measure.json").read_text())
    own = ("layer", "mad", "entropy", "self_mass")
    layers = [{key: layer[key] for key in own} for layer in measured["layers"]]
    old = {k: v for k, v in measured.items() if k not in ("skipped", "unavailable")}
    (folder / "measure.json").write_text(json.dumps(old | {"schema_version": 1, "layers": layers}))
    page = write_report([folder], tmp_path / "r.html")
    assert "3x5 patches" in page.read_text()
    print_measurements([folder])


def test_the_terminal_shows_what_was_measured_and_dashes_for_the_rest(tmp_path, capsys):
    folder = write_model(
        tmp_path / "a", name="a_name_that_is_longer_than_any_column_can_be", depth=2
    )
    measured = json.loads((folder / "measure.json").read_text())
    for key in ("mean_entropy", "layer_mean_entropy"):
        measured["summary"].pop(key)
    measured["convention"] |= {"unit": "pixels"}
    for layer in measured["layers"]:
        layer["image_size"] = [30, 50]
    (folder / "measure.json").write_text(json.dumps(measured))
    print_measurements([folder])
    out = capsys.readouterr().out
    assert re.search(r"layer 2 +0\.\d{3} +0\.\d{3} +0\.\d{3} +– +0\.\d{3} +–", out)
    assert "pixels, over 11 images." in out
    assert "11 of 101 in pictures; 2 other files left out." in out
    assert "Not measured: head.pool (one query)." in out
    assert "resampled bicubically" in out
    assert "accuracy" not in out
    assert max(map(len, out.splitlines())) <= 80


def difference(**changes):
    layer = {
        "layer": 1, "name": "blocks.0.attn",
        "mad": {
            "of_mean": {"value": -0.125, "low": -0.25, "high": 0.5},
            "mean": [0.5, -0.75], "low": [-0.5, -0.8], "high": [0.9, -0.7],
        },
    }  # fmt: skip
    contents = {
        "schema_version": 1,
        "interval": "95 %",
        "a": {"folder": "runs/a", "name": "one"},
        "b": {"folder": "runs/b", "name": "two"},
        "num_images": 1009,
        "data": {"name": "pictures", "hash": "00"},
        "convention": {"unit": "grid diagonal"},
        "level": "head",
        "distance": "mad",
        "notes": [],
        "mean": {"mad": {"value": 0.25, "low": 0.125, "high": 0.375}},
        "most_local": {"value": -0.0625, "low": -0.07, "high": 0.001},
        "layers": [layer],
    }
    return DIFF_FILE.record(contents | changes)


def test_a_difference_is_printed_with_intervals_and_the_heads_that_moved_most(capsys):
    print_difference(difference())
    out = capsys.readouterr().out
    assert re.search(r"mean of all heads +\+0\.250 +\+0\.125 to \+0\.375", out)
    assert re.search(r"layer 1 +−0\.125 +−0\.250 to \+0\.500 +1 of 2", out)
    assert re.search(r"most local head +−0\.062 +−0\.070 to \+0\.001", out)
    assert out.index("layer 1 head 2") < out.index("layer 1 head 1")
    assert "entropy" not in out
    assert "paired over 1,009 images of pictures" in " ".join(out.split())


def test_a_difference_of_whole_models_says_why(capsys):
    score = {"score": {"value": 0.25, "low": 0.125, "high": 0.375}}
    print_difference(
        difference(level="model", distance="score", mean=score, layers=[], notes=["Other grids."])
    )
    out = capsys.readouterr().out
    assert "score" in out
    assert "moved most" not in out
    assert out.strip().endswith("Other grids.")


@pytest.mark.slow
def test_files_without_a_default_metric_load_and_say_that_it_was_not_measured(tmp_path, capsys):
    folder = write_run(tmp_path / "run")
    assert read_measure(folder).summary.mean("mad_without_self") is None
    page = write_report([folder], tmp_path / "r.html", ("csv",))
    (row,) = table(page, "conditions")
    assert row["mad_without_self"] == ""
    assert "mean MAD without self" in page.read_text()
    assert "not measured" in words(page.read_text())
    print_measurements([folder])
    assert "not measured" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_smallest_mad_stands_beside_the_self_mass_of_that_head(tmp_path, capsys):
    folder = write_run(tmp_path / "run", "baseline+cutmix")
    measure = read_measure(folder)
    least = measure.summary.smallest("mad")
    own = measure.layers[least.layer - 1].metrics["self_mass"].per_head[least.head - 1]
    assert measure.numbers["most_local_self_mass"].value == pytest.approx(own)
    older = json.loads((folder / "measure.json").read_text())
    del older["summary"]["most_local_self_mass"]
    (folder / "measure.json").write_text(json.dumps(older))
    page = write_report([folder], tmp_path / "r.html", ("csv",))
    (row,) = table(page, "conditions")
    assert float(row["most_local_self_mass"]) == pytest.approx(own)
    print_measurements([folder])
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("  layer 1 ")]
    assert line.split()[2:4] == [f"{least.value:.3f}", f"{own:.3f}"]


def test_a_model_at_random_initialisation_is_called_untrained(tmp_path):
    folder = write_model(tmp_path / "a", name="vit_a")
    (family,) = read_families([folder])
    assert family.conditions[0].label == "vit_a"
    record = json.loads((folder / "run.json").read_text())
    record["weights"] = {"from": "random initialisation", "seed": 0}
    (folder / "run.json").write_text(json.dumps(record))
    (family,) = read_families([folder])
    assert family.conditions[0].label == "vit_a (untrained)"
