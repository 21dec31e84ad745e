"""Cells of another study: taken over as they are by key, or with differences that are accepted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import write_coloured_folder

from nearsight.cli import study as study_commands
from nearsight.runs.files import LOG, RECORD, WEIGHTS
from nearsight.study.design.plan import Software
from nearsight.study.folder import CELL, CELLS, STUDY, read_cells
from nearsight.study.run.reuse import take_over

Command = Callable[..., tuple[int, str, str]]
OLD = "0123456789abcdef"
RECIPE = '''"""Is one run enough?

Command: none
Hardware: any
Time: seconds
Expected: nothing
"""

from dataclasses import replace

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings
from nearsight.study.design.recipe_file import Condition, Study


def study():
    base = replace(
        preset("baseline", "folder:{root}"), data=DataSettings(name="folder:{root}", image_size=16),
        model=ModelSettings(name="mu"), epochs=2, patience=None, warmup_epochs=0, batch_size=29,
    )
    return Study(
        (Condition({{"rate": 1}}, base),), num_seeds=1, settings={{"measure": {{"num_images": 5}}}}
    )
'''


def test_what_a_cell_does_not_say_of_its_software_counts_as_a_difference():
    here = Software("2.9.0", "1.0.30", kernel=True, numbers=3)
    assert Software("2.9.0").differences_from(here) == [
        "timm not recorded there, 1.0.30 here",
        "compiled kernel: not recorded there, yes here",
        "nearsight's numbers not recorded there, 3 here",
    ]
    assert here.differences_from(here) == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_at_a_terminal_is_asked_and_nobody_else(
    answer: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert study_commands._accept(False) is None
    assert study_commands._accept(True)(["torch"]) is True
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda text, err: answer)
    assert study_commands._accept(False)(["torch 2.0 there, 2.9 here"]) is answer
    assert "torch 2.0 there, 2.9 here" in capsys.readouterr().err


@pytest.mark.training
@pytest.mark.processes
def test_cells_of_other_software_are_taken_over_only_when_the_differences_are_accepted(
    tmp_path: Path, nearsight: Command
):
    write_coloured_folder(tmp_path / "images")
    file = tmp_path / "one.py"
    file.write_text(RECIPE.format(root=tmp_path / "images"))
    run = ["study", "run", str(file), "--data-root", str(tmp_path), "--workers", "1"]
    assert nearsight(*run, "--out", "first")[0] == 0
    (cell,) = read_cells(tmp_path / "first")
    same_contents = tmp_path / "renamed"  # as if a setting had been added since: another key
    shutil.copytree(tmp_path / "first", same_contents)
    (same_contents / CELLS / cell.key).rename(same_contents / CELLS / OLD)
    text = (same_contents / STUDY).read_text()
    (same_contents / STUDY).write_text(text.replace(cell.key, OLD))
    (like,), notes = take_over([cell], tmp_path / "x", same_contents, None, only_identical=True)
    assert (like.key, like.accepted, notes) == (OLD, (), [])
    made = tmp_path / "first" / CELLS / OLD  # as if timm had been another one
    (tmp_path / "first" / CELLS / cell.key).rename(made)
    (tmp_path / "first" / STUDY).write_text(
        (tmp_path / "first" / STUDY).read_text().replace(cell.key, OLD)
    )
    contents = json.loads((made / CELL).read_text())
    contents["software"]["timm"] = "0.0.1"
    (made / CELL).write_text(json.dumps(contents | {"key": OLD}))
    record = json.loads((made / RECORD).read_text())
    record["provenance"]["hardware"]["cpu"] = "Z80"
    (made / RECORD).write_text(json.dumps(record))

    code, _, err = nearsight(*run, "--out", "second", "--reuse", "first")
    assert code == 1
    assert f"timm 0.0.1 there, {cell.software.timm} here (1 cells)" in err
    assert "--accept-differences" in err
    assert "--only-identical" in err
    assert not (tmp_path / "second").exists()

    (new,), notes = take_over([cell], Path("second"), Path("first"), None, only_identical=True)
    assert (new, new.key) == (cell, cell.key)  # to be run here
    assert notes == ["1 cells of first were made with other software and are run here"]
    code, _, err = nearsight(
        *run, "--out", "second", "--reuse", "first", "--accept-differences", "--only-identical"
    )
    assert code == 1
    assert "not both" in err
    code, _, err = nearsight(*run, "--out", "second", "--reuse", "first", "--accept-differences")
    assert code == 0, err
    assert "1 finished cells copied from first" in err
    assert "1 reused cells were made on the CPU Z80" in err
    copied = tmp_path / "second" / CELLS / OLD
    for name in (WEIGHTS, LOG):
        assert (copied / name).read_bytes() == (made / name).read_bytes()
    (taken,) = read_cells(tmp_path / "second")
    assert taken.accepted == (f"timm 0.0.1 there, {cell.software.timm} here",)

    assert nearsight(*run, "--out", "second")[0] == 0  # it is not trained again
    assert [x.key for x in read_cells(tmp_path / "second")] == [OLD]
