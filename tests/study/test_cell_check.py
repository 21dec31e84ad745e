"""The measurement of a cell belongs to its study: others go elsewhere, are refused or repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import write_coloured_folder
from study.example_folders import a_study
from study.made_study import made_recipe

from nearsight.core import UserError
from nearsight.measure.folders.run_folder import measure_run
from nearsight.runs.files import MEASURE, RECORD, read_measure, read_record
from nearsight.runs.records import CLAIMS_FILE, SUMMARY_FILE
from nearsight.study.analyse.loaded import load_study
from nearsight.study.cell_check import ASIDE, run_problem
from nearsight.study.folder import CELL, cell_folder, read_cells, state_of
from nearsight.study.run.runner import run_study, set_others_aside
from nearsight.study.show.study_page import study_report

Command = Callable[..., tuple[int, str, str]]


def changed(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def with_fewer_metrics(path: Path) -> None:
    contents = json.loads(path.read_text())
    summary = {name: x for name, x in contents["summary"].items() if "entropy" not in name}
    changed(path, summary=summary)


OTHERS = {
    "convention": (
        lambda path: changed(path, convention={"name": "pixels", "unit": "pixels"}),
        "convention pixels instead of paper",
    ),
    "fewer images": (lambda path: changed(path, num_images=7), "7 images instead of 11"),
    "other images": (
        lambda path: changed(path, data={"name": "shapes", "hash": "beef"}),
        "it measured the images beef",
    ),
    "fewer metrics": (with_fewer_metrics, "without the metrics entropy"),
    "other metrics": (
        lambda path: changed(path, settings={"metrics": ["mad", "entropy"]}),
        "without the metrics",
    ),
}


@pytest.mark.parametrize("what", sorted(OTHERS))
@pytest.mark.slow
def test_cells_that_were_measured_differently_are_refused_before_anything_is_written(
    what: str, tmp_path: Path, nearsight: Command
):
    out = a_study(tmp_path / "study")
    change, words = OTHERS[what]
    folder = cell_folder(out, read_cells(out)[3])
    change(folder / MEASURE)
    for command in ("claims", "report"):
        code, _, err = nearsight("study", command, str(out))
        assert (code, "Traceback" in err) == (1, False)
        assert str(folder) in err
        assert words in err
        assert "again" in err
    assert not (out / SUMMARY_FILE.name).exists()
    assert not (out / CLAIMS_FILE.name).exists()


@pytest.mark.slow
def test_cells_of_one_study_that_were_planned_with_other_numbers_of_images_are_refused(
    tmp_path: Path,
):
    out = a_study(tmp_path / "study")
    folder = cell_folder(out, read_cells(out)[3])
    cell = json.loads((folder / CELL).read_text())
    cell["stages"]["measure"]["num_images"] = 7
    (folder / CELL).write_text(json.dumps(cell))
    changed(folder / MEASURE, num_images=7)
    with pytest.raises(UserError, match=r"\b7 images\b.*\b00112233445566aa\b.*\b11 images\b"):
        study_report(out, tmp_path / "page.html")


@pytest.mark.slow
def test_the_run_of_another_seed_in_a_cell_is_set_aside(tmp_path: Path):
    out = a_study(tmp_path / "study")
    cell = read_cells(out)[0]
    folder = cell_folder(out, cell)
    assert "other values of model, epochs" in run_problem(cell, read_record(folder))
    changed(folder / RECORD, seed=5)
    (note,) = set_others_aside(out, [cell])
    assert "seed 5 instead of 0" in note
    assert state_of(folder) == "waiting"
    assert json.loads((folder / ASIDE / RECORD).read_text())["seed"] == 5


@pytest.mark.training
@pytest.mark.processes
def test_the_measurement_of_a_cell_is_kept_from_others_and_repaired(
    tmp_path: Path, nearsight: Command
):
    root, out = tmp_path / "images", tmp_path / "out"
    write_coloured_folder(root)
    recipe = made_recipe(root)
    assert run_study(recipe, out, workers=1, data_root=tmp_path) == []
    (cell,) = read_cells(out)
    folder = cell_folder(out, cell)
    measured = (folder / MEASURE).read_bytes()
    where = ["--data-root", str(tmp_path), "--device", "cpu"]
    code, _, err = nearsight("measure", str(folder), "--convention", "pixels", *where)
    assert code == 1
    assert f"{folder} is a cell of a study" in err
    assert "differs in num_images, convention; " in err
    assert "--out DIR" in err
    assert (folder / MEASURE).read_bytes() == measured
    assert nearsight("measure", str(folder), "--num-images", "5", *where)[0] == 0

    pixels = ["measure", str(folder), "--convention", "pixels", "--out", "pixels", *where]
    assert nearsight(*pixels)[0] == 0
    assert read_measure(tmp_path / "pixels").convention.name == "pixels"
    assert read_record(tmp_path / "pixels") == read_record(folder)
    code, _, err = nearsight(*pixels[:2], "--out", "pixels", *where)
    assert (code, "convention pixels" in err and "--force" in err) == (
        1, True,
    )  # fmt: skip
    assert nearsight(*pixels[:2], "--out", "pixels", "--force", *where)[0] == 0
    assert read_measure(tmp_path / "pixels").convention.name == "paper"

    before = read_measure(folder).summary
    measure_run(folder, convention="pixels", data_root=tmp_path, force=True)
    with pytest.raises(UserError, match="convention pixels instead of paper, 33 images instead of"):
        load_study(out)
    assert run_study(recipe, out, workers=1, data_root=tmp_path) == []
    assert read_measure(folder).summary == before
    assert read_measure(folder / ASIDE).convention.name == "pixels"
    assert len(load_study(out).finished) == 1
