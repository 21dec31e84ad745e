"""The table of stages: what a cell runs, when it is finished, and what an export keeps of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs.made_records import run_contents

from nearsight.core import UserError
from nearsight.protocol.presets import preset
from nearsight.runs.answers import ANSWERS
from nearsight.runs.files import CAUSAL, EVALUATE, LOG, MEASURE, RECORD
from nearsight.runs.records import RECORDS
from nearsight.runs.stage import Stage
from nearsight.study.design import stages
from nearsight.study.design.plan import Cell, cells_of, keep_stored
from nearsight.study.design.recipe_file import Condition, Study
from nearsight.study.design.stages import STAGES, complete_stages, stages_named
from nearsight.study.folder import cell_folder, state_of, write_study
from nearsight.study.run.cell import run_cell

ONE = Study((Condition({"a": 1.0}, preset("baseline", "shapes")),))


def the_cell(study: Study):
    return cells_of(study, [3], {"shapes": "aa"}, "cpu")[0]


def test_stages_run_in_the_order_of_the_table_whatever_the_recipe_says():
    assert [x.name for x in stages_named(["measure", "evaluate", "causal", "train"])] == [*STAGES]


@pytest.mark.parametrize(
    ("names", "settings", "sentence"),
    [
        (("train", "mesure"), {}, r"'mesure'.*\bmean measure\b"),
        (("train", "train"), {}, "train, train"),
        (("measure",), {}, r"\btrain\b"),
        (("train", "measure"), {"causal": {"window": 5}}, r"'causal'.*\btrain, measure$"),
        (
            ("train", "causal"),
            {"causal": {"windows": 5}},
            r"\bcausal\b.*'windows'.* window\b",
        ),
        (("train",), {"train": {"seed": 5}}, r"\btrain\b.*'seed'.*\bcompiled, parallel$"),
        (
            ("train",),
            {"train": {"trackers": ("wandb",)}},
            r"\btrain\b.*'trackers'.*, parallel$",
        ),
    ],
)
def test_a_wrong_stage_or_setting_is_refused_when_the_recipe_is_read(names, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        replace(ONE, stages=names, settings=settings)


def test_every_setting_that_decides_a_number_is_settled_with_its_default():
    found = complete_stages(("train", "causal"), {"causal": {"heads": ((0, 1),)}})
    assert found == {
        "train": {"compiled": False, "parallel": "ddp"},
        "causal": {"heads": [[0, 1]], "window": 3, "num_images": None, "batch_size": 64},
    }


def test_a_cell_is_finished_when_all_the_stages_that_its_recipe_names_are(tmp_path: Path):
    cell = the_cell(replace(ONE, stages=("train", "measure", "causal")))
    write_study(tmp_path, "one", [cell])
    folder = cell_folder(tmp_path, cell)
    (folder / MEASURE).write_text("{}")
    (folder / CAUSAL).write_text("{}")
    (folder / RECORD).write_text(json.dumps(run_contents(status="running", result=None)))
    assert state_of(folder) == "stopped"
    (folder / RECORD).write_text(json.dumps(run_contents()))
    assert state_of(folder) == "finished"
    (folder / CAUSAL).unlink()
    assert state_of(folder) == "stopped"


def test_an_export_keeps_the_log_of_training_and_the_outputs_of_the_other_stages():
    kept = [file for stage in STAGES.values() for file in stage.exported]
    assert kept == [LOG, ANSWERS, MEASURE, CAUSAL, EVALUATE, RECORDS]


def test_a_new_stage_is_one_line_in_the_table(tmp_path: Path, monkeypatch):
    """A stage of our own: its settings, its key, its turn in a cell and when it is finished."""
    calls = []

    def count_run(path: Path, upto: int = 7, seed: int = 0, data_root: Path | None = None) -> Path:
        calls.append((path, upto, seed, data_root))
        (path / "count.json").write_text(str(upto))
        return path / "count.json"

    def pretend(path: Path, protocol=None, seed: int = 0) -> Path:
        (path / RECORD).touch()
        return path / RECORD

    table = {
        "train": Stage("train", RECORD, pretend),
        "count": Stage("count", "count.json", count_run),
    }
    monkeypatch.setattr(stages, "STAGES", table)
    study = replace(ONE, stages=("train", "count"), settings={"count": {"upto": 11}})
    cell = the_cell(study)
    assert cell.stages == {"train": {}, "count": {"upto": 11}}
    assert cell.key != the_cell(replace(study, settings={})).key
    write_study(tmp_path, "one", [cell])
    folder = cell_folder(tmp_path, cell)
    run_cell(folder, tmp_path)
    assert calls == [(folder, 11, 3, tmp_path)]
    assert state_of(folder) == "finished"
    run_cell(folder, tmp_path)
    assert len(calls) == 1


def test_a_stored_cell_from_before_a_setting_existed_is_continued_under_its_key():
    cell = the_cell(ONE)
    contents = cell.contents()
    del contents["stages"]["measure"]["batch_size"]
    stored = Cell.of(contents, "0123456789abcdef")
    assert keep_stored([cell], [stored])[0].key == "0123456789abcdef"
    contents["stages"]["measure"]["batch_size"] = 7
    assert keep_stored([cell], [Cell.of(contents, "0123456789abcdef")])[0].key == cell.key
