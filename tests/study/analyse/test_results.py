"""A study's results: outcomes and courses of its cells, summary.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from study.example_folders import a_study, values_per_image
from typer.testing import CliRunner

from nearsight.cli.app import app
from nearsight.protocol.presets import preset
from nearsight.study.analyse.effects import study_effects
from nearsight.study.analyse.loaded import load_study
from nearsight.study.analyse.matched import Course
from nearsight.study.analyse.results import _at_equal_steps, courses, outcomes
from nearsight.study.analyse.summary import summary
from nearsight.study.folder import cell_folder, read_cells
from nearsight.study.show.effect_tables import SEVERAL_GRIDS, effects_note
from nearsight.study.show.study_page import answer


@pytest.mark.slow
def test_outcomes_hold_factors_settings_and_numbers_of_finished_cells(tmp_path: Path):
    found = outcomes(load_study(a_study(tmp_path, leave_out=1)))
    assert len(found) == 11
    first = found[1]
    assert first.factors == {"autoaugment": False, "cutmix": True}
    assert first.seed == 0
    assert first.values["accuracy"] == pytest.approx(0.7)  # as made up for CutMix
    assert first.values["epochs"] == 5
    assert first.settings["optimizer.lr"] == preset("baseline", "shapes").optimizer.lr
    assert first.settings["cutmix.probability"] == 0.5
    measured = json.loads(
        (cell_folder(tmp_path, cell_of(tmp_path, 1)) / "measure.json").read_text()
    )
    assert first.values["min_mad"] == measured["summary"]["min_mad"]["value"]


def cell_of(out: Path, number: int):
    return read_cells(out)[number]


@pytest.mark.slow
def test_the_effect_of_cutmix_is_that_of_the_made_up_runs(tmp_path: Path):
    contents = summary(load_study(a_study(tmp_path)))
    accuracy = next(x for x in contents["effects"] if x["value"] == "accuracy")
    effects = {tuple(x["factors"]): x for x in accuracy["effects"]}
    assert effects["cutmix",]["estimate"]["value"] == pytest.approx(0.1)
    assert effects["autoaugment",]["estimate"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert effects["cutmix",]["per_seed"].keys() == {"0", "1", "2"}
    matched = next(x for x in contents["effects_at_matched_steps"] if x["value"] == "accuracy")
    assert matched["epoch"] == 5
    assert matched["effects"][1]["estimate"]["value"] == pytest.approx(0.1)
    equal = next(x for x in contents["effects_at_matched_loss"] if x["value"] == "accuracy")
    assert equal["loss"] == pytest.approx(2 / 5)  # that of the fifth epoch
    assert equal["effects"][1]["estimate"]["value"] == pytest.approx(0.1)
    away = [x for x in contents["differences"] if x["value"] == "accuracy"]
    assert [x["from"] for x in away] == ["autoaugment off, cutmix off"] * 3
    assert away[0]["condition"] == "autoaugment off, cutmix on"
    assert away[0]["mean"] == pytest.approx(0.1)
    rows = [x for x in contents["conditions"] if x["value"] == "accuracy"]
    assert rows[1]["mean"] == pytest.approx(0.71)
    assert rows[1]["sd"] == pytest.approx(0.01)


def test_equal_steps_are_the_last_epoch_that_all_runs_of_a_model_were_seen_at():
    def course(num_epochs, model="compact_vit", **values):
        numbers = {"min_mad": [0.5 - 0.1 * epoch for epoch in range(num_epochs)]} | values
        settings = {"model.name": model, "data.name": "cifar100", "cutmix": num_epochs > 2}
        return Course({}, 0, range(num_epochs), [1.0] * num_epochs, numbers, settings)

    unseen = course(2, min_mad=[None, None], model="nano")
    found = _at_equal_steps([course(4), course(3), course(3, model="mu"), unseen])
    assert found == [{"min_mad_equal_steps": 0.3}, {"min_mad_equal_steps": 0.3}, *found[2:]]
    assert found[2:] == [{"min_mad_equal_steps": 0.3}, {}]
    longer = _at_equal_steps([course(4), course(2), course(3, model="mu")])
    assert [x["min_mad_equal_steps"] for x in longer] == [0.4, 0.4, 0.3]


@pytest.mark.slow
def test_across_grids_the_score_stands_beside_mad_and_carries_the_sentence(tmp_path: Path):
    one = study_effects(load_study(a_study(tmp_path / "one")))
    assert not {"max_score", "score"} & {x.value for x in one}
    assert SEVERAL_GRIDS not in effects_note(one)
    out = a_study(tmp_path / "two")
    finer = 0.31  # uniform attention of an invented grid, which AutoAugment's models have
    for cell in read_cells(out):
        path = cell_folder(out, cell) / "measure.json"
        measured = json.loads(path.read_text())
        if cell.factors["autoaugment"]:
            measured["grid"] = [7, 11]
            for layer in measured["layers"]:
                layer["grid"] = [7, 11]
                layer["null"]["uniform_mad"] = finer
        path.write_text(json.dumps(measured))
    study = load_study(out)
    coarse = study.finished[0].files.measure.null_lines(0)["uniform_mad"]
    for found in outcomes(study):
        uniform = finer if found.factors["autoaugment"] else coarse
        expected = 1 - found.values["min_mad"] / uniform
        assert found.values["max_score"] == pytest.approx(expected)
    effects = study_effects(study)
    score = next(x for x in effects if x.value == "max_score").at_end
    per_seed: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for found in outcomes(study):
        sign = 0.5 if found.factors["autoaugment"] else -0.5
        per_seed[found.seed].append(sign * found.values["max_score"])
    assert score.effect("autoaugment").per_seed == pytest.approx(
        {seed: sum(x) for seed, x in per_seed.items()}
    )
    assert SEVERAL_GRIDS in effects_note(effects)
    told = answer([x for x in effects if x.value == "max_score"], "somewhere", 1)
    assert "CutMix makes the most local head more local: its score changes by +" in told
    assert "AutoAugment makes the most local head less local: its score changes by −" in told
    contents = summary(study)
    assert {"max_score", "score"} <= {x["value"] for x in contents["conditions"]}


@pytest.mark.slow
def test_courses_have_an_entry_per_epoch(tmp_path: Path):
    (first, *_) = courses(load_study(a_study(tmp_path)))
    assert list(first.epochs) == [1, 2, 3, 4, 5]
    assert first.values["accuracy"][3] == pytest.approx(0.6)
    assert first.values["min_mad"] == [None] * 5  # not looked at while training


@pytest.mark.slow
def test_a_missing_cell_drops_its_seed_and_is_named(tmp_path: Path):
    contents = summary(load_study(a_study(tmp_path, leave_out=1)))
    accuracy = contents["effects"][0]
    assert accuracy["seeds"] == [0, 1]
    assert any(
        "Seed 2 is left out: it lacks autoaugment on, cutmix on" in x for x in accuracy["notes"]
    )
    assert contents["cells"][-1]["failed"] is None
    assert "values" not in contents["cells"][-1]


@pytest.mark.slow
def test_effects_on_min_mad_over_seeds_and_images_come_from_the_values_per_image(tmp_path: Path):
    """The values are 0.1 lower with CutMix; without the file of a cell there are no effects."""
    out = a_study(tmp_path)
    assert summary(load_study(out))["effects_on_min_mad_over_seeds_and_images"] == []
    values_per_image(out)
    found = summary(load_study(out))["effects_on_min_mad_over_seeds_and_images"]
    assert [x["factors"] for x in found] == [["autoaugment"], ["cutmix"], ["autoaugment", "cutmix"]]
    both = found[1]["over_both"]
    assert both["value"] == pytest.approx(-0.1, abs=0.02)
    assert both["low"] < found[1]["over_images"]["low"] < both["value"] < both["high"]
    assert (both["n"], both["over"]) == (3, "seeds and images")


def test_a_study_without_finished_cells_has_no_summary(tmp_path: Path):
    with pytest.raises(ValueError, match=r"/test_\w+"):
        summary(load_study(a_study(tmp_path, leave_out=12)))


@pytest.mark.slow
def test_claims_are_judged_by_a_study_and_never_beyond_its_scale(tmp_path: Path):
    out = a_study(tmp_path)
    shown = CliRunner().invoke(app, ["study", "claims", str(out)])
    assert shown.exit_code == 0, shown.output
    judged = json.loads((out / "claims.json").read_text())["verdicts"]
    assert len(judged) >= 30
    decisions = {x["decision"] for x in judged if x["claimed_scale"] != "no seed can change it"}
    assert not decisions & {"supported", "contradicted"}  # 5 epochs of a made-up data set
    assert f"of {len(judged)} verdicts" in shown.output
    printed = CliRunner().invoke(app, ["study", "claims", str(out), "--json"])
    rows = {x["id"]: x for x in json.loads(printed.output)["result"]}
    assert {"condition", "settings", "claimed", "seen", "decision", "n"} <= set(rows["locat-flops"])
    assert rows["locat-parameters"]["seen"] == "2340"
    detailed = CliRunner().invoke(app, ["study", "claims", str(out), "--details"])
    assert "Seen here:" in detailed.output
