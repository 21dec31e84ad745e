"""Effects as if every run had been stopped early, from the recipe to the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from study.example_folders import a_study
from typer.testing import CliRunner

from nearsight.cli.app import app
from nearsight.core import UserError
from nearsight.runs.files import read_json, write_json
from nearsight.study.analyse.effects import study_effects
from nearsight.study.analyse.loaded import load_study
from nearsight.study.design.recipe_file import recipe
from nearsight.study.folder import read_cells, read_study, write_study


def asking(out: Path, patience: int) -> Path:
    """Write a virtual patience into study.json, as if the recipe had asked for it."""
    write_json(out / "study.json", read_json(out / "study.json") | {"virtual_patience": patience})
    return out


@pytest.mark.slow
def test_effects_are_those_of_the_epochs_that_early_stopping_would_have_kept(tmp_path: Path):
    """Every run is best in epoch 4 of 5: 60 % without CutMix and 70 % with it."""
    study = load_study(asking(a_study(tmp_path), patience=1))
    (effects,) = (x for x in study_effects(study) if x.value == "accuracy")
    patience, found = effects.at_stop
    assert patience == 1
    assert found.effect("cutmix").per_seed == pytest.approx({0: 0.1, 1: 0.1, 2: 0.1})
    assert found.effect("autoaugment").per_seed == pytest.approx({0: 0.0, 1: 0.0, 2: 0.0})
    assert [x.at_stop for x in study_effects(study) if x.value == "min_mad"] == [None]


@pytest.mark.slow
def test_a_study_that_does_not_ask_has_no_such_effects(tmp_path: Path):
    assert all(x.at_stop is None for x in study_effects(load_study(a_study(tmp_path))))


@pytest.mark.slow
def test_summary_and_page_tell_the_patience(tmp_path: Path):
    out = asking(a_study(tmp_path), patience=1)
    answer = CliRunner().invoke(app, ["study", "report", str(out)])
    assert answer.exit_code == 0, answer.output
    told = read_json(out / "summary.json")["effects_at_virtual_stop"]
    assert {x["virtual_patience"] for x in told} == {1}
    assert "as if stopped early (patience 1)" in (out / "report.html").read_text()


@pytest.mark.slow
def test_a_patience_is_kept_as_it_was_when_the_first_cell_was_finished(tmp_path: Path):
    out = asking(a_study(tmp_path), patience=1)
    write_study(out, "again", read_cells(out), virtual_patience=7)
    assert read_study(out).virtual_patience == 1


def test_cutmix_or_length_waits_as_many_steps_as_the_paper():
    """20 epochs of 40,000 images in batches of 128 are 6,250 steps, and 5 in batches of 32."""
    study = recipe("cutmix-or-length").study()
    batch = study.conditions[0].protocol.batch_size
    assert study.virtual_patience * 40_000 / batch == 20 * 40_000 / 128
    with pytest.raises(UserError, match="virtual_patience"):
        replace(study, virtual_patience=0)
