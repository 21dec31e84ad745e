"""A study folder of key format 1 is loaded, reported and run to the end under its old keys.

format_1/ was made by the last commit before keys had a format (4719944): one finished cell without
its weights, one that was not begun, and the log that the same commit wrote for the second one.
"""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from nearsight.runs.files import LOG, read_log, read_measure, read_record
from nearsight.study.design.recipe_file import read_recipe
from nearsight.study.folder import CELL, cell_folder, read_cells, read_study, state_of, write_study
from nearsight.study.run.runner import plan_cells, run_study
from nearsight.study.show.publish import publish_study
from nearsight.study.show.study_page import study_report

pytestmark = pytest.mark.slow  # draws whole pages or trains

MADE = Path(__file__).parents[1] / "format_1"
DONE, OPEN = "83d3cbe9bf2c93e2", "22face3584429206"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A copy of the study, as if it had been planned with the torch of today."""
    shutil.copytree(MADE / "study", tmp_path / "out")
    for file in (tmp_path / "out").rglob(CELL):
        contents = json.loads(file.read_text())
        assert "key" not in contents
        file.write_text(json.dumps(contents | {"torch": metadata.version("torch")}))
    return tmp_path / "out"


def test_old_cells_keep_the_keys_that_they_are_stored_under(out: Path):
    cells = read_cells(out)
    assert [cell.key for cell in cells] == [DONE, OPEN]
    assert [state_of(cell_folder(out, cell)) for cell in cells] == ["finished", "waiting"]
    assert cells[0].software.kernel is None  # a cell of format 1 does not say
    assert cells[0].stages["measure"]["num_images"] == 11
    assert "nmi" in cells[0].stages["measure"]["metrics"]


def test_a_plan_finds_the_old_cells_and_names_no_others(out: Path, tmp_path: Path):
    recipe = read_recipe(MADE / "smoothing.py")
    before = {file: file.read_bytes() for file in out.rglob("*.json")}
    plan = plan_cells(recipe, out=out, data_root=tmp_path)
    assert [cell.key for cell in plan.cells] == [DONE, OPEN]
    assert plan.states == ("finished", "waiting")
    write_study(out, recipe.name, plan.cells, recipe.question)
    assert {file: file.read_bytes() for file in out.rglob("*.json")} == before
    new = plan_cells(recipe, out=tmp_path / "new", data_root=tmp_path)
    assert not {cell.key for cell in new.cells} & {DONE, OPEN}


def test_old_cells_of_other_software_are_not_continued(out: Path, tmp_path: Path):
    file = out / "cells" / OPEN / CELL
    file.write_text(json.dumps(json.loads(file.read_text()) | {"torch": "2.0.0"}))
    plan = plan_cells(read_recipe(MADE / "smoothing.py"), out=out, data_root=tmp_path)
    assert plan.cells[0].key == DONE
    assert plan.cells[1].key != OPEN


def test_an_unfinished_old_study_is_run_to_the_end_and_reported(out: Path, tmp_path: Path):
    done = {path.name: path.read_bytes() for path in (out / "cells" / DONE).iterdir()}
    left = run_study(read_recipe(MADE / "smoothing.py"), out, workers=1, data_root=tmp_path)
    assert left == []
    assert read_study(out).cells == [DONE, OPEN]
    assert {path.name for path in (out / "cells").iterdir()} == {DONE, OPEN}
    assert done == {path.name: path.read_bytes() for path in (out / "cells" / DONE).iterdir()}
    folder = out / "cells" / OPEN
    assert read_record(folder).status == "finished"
    assert read_measure(folder).num_images == 11
    shutil.copy(MADE / "trained.jsonl", tmp_path / LOG)
    for found, wanted in zip(read_log(folder), read_log(tmp_path), strict=True):
        for name in ("epoch", "step", "train_loss", "validation_loss"):
            assert getattr(found, name, None) == pytest.approx(
                getattr(wanted, name, None), abs=1e-4
            )
    page = study_report(out, out / "report.html").read_text()
    assert "Does label smoothing change a model of two layers?" in page
    exported = publish_study(out, tmp_path / "exported").path
    assert [cell.key for cell in read_cells(exported)] == [DONE, OPEN]
