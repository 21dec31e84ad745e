"""The primary contrast: named before the study ran, and computed by pairs of runs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats
from study.example_folders import SEEDS, a_study
from typer.testing import CliRunner

from nearsight.cli.app import app
from nearsight.core import UserError
from nearsight.runs.files import read_json, write_json
from nearsight.stats import over_seeds, simultaneous_level
from nearsight.study.analyse.effects import num_simultaneous, simultaneous, study_effects
from nearsight.study.analyse.loaded import load_study
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.analyse.primary import paired_differences, primary_result
from nearsight.study.analyse.results import outcomes
from nearsight.study.analyse.shares import seed_shares
from nearsight.study.analyse.summary import differences, summary
from nearsight.study.design.recipe_file import Condition, PrimaryContrast, Study, recipes
from nearsight.study.folder import read_cells, read_study, write_study

CUTMIX = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def named(out: Path, contrast: PrimaryContrast = CUTMIX) -> Path:
    """Write a primary contrast into study.json, as if it had been named beforehand."""
    contents = read_json(out / "study.json")
    told = {"value": contrast.value, "high": dict(contrast.high), "low": dict(contrast.low)}
    write_json(out / "study.json", contents | {"primary": told})
    return out


@pytest.mark.parametrize("each", [x for x in recipes() if not x.needs], ids=lambda x: x.name)
def test_every_recipe_names_one_primary_contrast(each):
    assert each.study().primary is not None


@pytest.mark.slow
def test_a_primary_contrast_is_the_mean_over_pairs_and_equals_the_main_effect(tmp_path: Path):
    study = load_study(named(a_study(tmp_path)))
    found = primary_result(study)
    (effects,) = (x for x in study_effects(study) if x.value == "min_mad")
    main = effects.at_end.effect("cutmix")
    assert found.per_seed == pytest.approx(main.per_seed)
    assert found.num_pairs == 6  # two pairs in each of three seeds
    assert found.p == main.p
    assert found.estimate.low == pytest.approx(main.estimate.low)


def test_a_factor_with_many_levels_is_compared_at_two_of_them():
    """Pairs by hand: 3 - 1 and 30 - 10 in seed 0; seed 1 lacks a run and is left out."""
    numbers = {
        (0, "a", False): 1.0, (0, "b", False): 3.0, (0, "c", False): 99.0,
        (0, "a", True): 10.0, (0, "b", True): 30.0,
        (1, "a", False): 1.0, (1, "b", False): 4.0, (1, "a", True): 10.0,
    }  # fmt: skip
    found = [
        Outcome({"mixing": mixing, "long": long}, seed, {"min_mad": x})
        for (seed, mixing, long), x in numbers.items()
    ]
    contrast = PrimaryContrast("min_mad", {"mixing": "b"}, {"mixing": "a"})
    assert paired_differences(found, contrast) == {0: [2.0, 20.0]}
    long = PrimaryContrast(
        "min_mad", {"mixing": "b", "long": False}, {"mixing": "a", "long": False}
    )
    assert paired_differences(found, long) == {0: [2.0], 1: [3.0]}
    assert str(long) == "min MAD, mixing b - a, long off"


@pytest.mark.slow
def test_a_primary_contrast_of_unknown_numbers_or_levels_is_refused(tmp_path: Path):
    conditions = tuple(
        Condition({"cutmix": on}, x.protocol)
        for on, x in zip((False, True), read_cells(a_study(tmp_path))[:2])
    )
    for wrong, words in (
        (replace(CUTMIX, value="min_madd"), r"'min_madd'.*\bmean min_mad\b"),
        (replace(CUTMIX, high={"cutmix": "often"}), r"\{'cutmix': 'often'\}"),
        (replace(CUTMIX, high={"mixup": True}), r"\{'mixup': True\}.*\{'cutmix': False\}"),
        (replace(CUTMIX, high={"cutmix": False}), r"(\{'cutmix': False\}.*){2}"),
    ):
        with pytest.raises(UserError, match=words):
            Study(conditions, primary=wrong)


@pytest.mark.slow
def test_a_primary_contrast_cannot_be_named_or_changed_after_a_cell_is_finished(tmp_path: Path):
    out = a_study(tmp_path)
    cells = read_cells(out)
    write_study(out, "made-up", cells, primary=CUTMIX)
    assert read_study(out).primary is None
    other = replace(CUTMIX, value="accuracy")
    write_study(named(out), "made-up", cells, primary=other)
    assert read_study(out).primary.value == "min_mad"
    fresh = tmp_path / "fresh"
    for primary in (CUTMIX, other):  # nothing has run: the recipe may still be changed
        write_study(fresh, "made-up", cells, primary=primary)
    assert read_study(fresh).primary.value == "accuracy"


@pytest.mark.slow
def test_intervals_beside_the_primary_one_are_simultaneous(tmp_path: Path):
    study = load_study(named(a_study(tmp_path)))
    effects = study_effects(study)
    num = num_simultaneous(effects)
    assert num == 3 * (len(effects) + 2)  # accuracy also at matched steps and loss
    contents = summary(study, effects)
    assert contents["num_simultaneous"] == num
    effect = contents["effects"][1]["effects"][1]
    numbers = list(effect["per_seed"].values())
    wide = over_seeds(numbers, 1 - 0.05 / num)
    assert effect["simultaneous"]["low"] == pytest.approx(wide.low)
    assert effect["estimate"]["low"] == pytest.approx(over_seeds(numbers).low)
    rows = differences(outcomes(study))
    assert all(x["simultaneous_low"] <= x["low"] for x in rows)
    assert simultaneous(effects[0].at_end.effects[0], 0) is None
    with pytest.raises(UserError, match=r"\bnum_intervals is 0\b"):
        simultaneous_level(0)


@pytest.mark.slow
def test_all_simultaneous_intervals_cover_at_once():
    """Seven null contrasts of 5 seeds that share half of their noise: 95 % or more, not 70 %."""
    import numpy as np

    rng, own, at_once = np.random.default_rng(0), 0, 0
    for _ in range(400):
        values = rng.normal(0, 1, (7, 5)) + rng.normal(0, 1, 5)
        for level in (0.95, simultaneous_level(7)):
            found = [over_seeds(list(x), level) for x in values]
            covers = all(x.low <= 0 <= x.high for x in found)
            own, at_once = (own + covers, at_once) if level == 0.95 else (own, at_once + covers)
    assert at_once >= 0.94 * 400
    assert stats.binomtest(own, 400, 0.95).pvalue < 1e-6


@pytest.mark.slow
def test_effects_on_the_logarithm_stand_beside_those_on_mad(tmp_path: Path):
    study = load_study(a_study(tmp_path))
    names = [x.value for x in study_effects(study)]
    assert names[names.index("min_mad") + 1] == "log_min_mad"
    assert "log_min_mad" in {x["value"] for x in summary(study)["conditions"]}


def test_shares_of_seeds_have_exact_intervals():
    found = [
        Outcome({"cutmix": on}, seed, {"identity_heads": float(on), "local_heads": float(seed)})
        for on, seed in itertools.product((False, True), SEEDS)
    ]
    shares = {(x.kind, dict(x.condition)["cutmix"]): x for x in seed_shares(found)}
    assert [shares["identity", on].count for on in (False, True)] == [0, 3]
    assert shares["identity", True].share.low == pytest.approx(0.025 ** (1 / 3))
    assert shares["local", False].count == 2
    assert seed_shares([Outcome({"cutmix": True}, 0, {"min_mad": 0.3})]) == []


@pytest.mark.slow
def test_the_page_the_terminal_and_json_begin_with_the_primary_contrast(tmp_path: Path):
    out = named(a_study(tmp_path))
    shown = CliRunner().invoke(app, ["study", "report", str(out)])
    assert shown.exit_code == 0, shown.output
    for words in ("The primary contrast", "on log min MAD", "identity head", "of 3 (0 to 71 %)"):
        assert words in shown.output
    page = (out / "report.html").read_text()
    assert "lower with CutMix on than with CutMix off" in page
    places = [page.index(f'id="{x}"') for x in ("primary", "seed-shares", "effects-log-min-mad")]
    assert places == sorted(places)
    assert "intervals over seeds are simultaneous" in page
    printed = CliRunner().invoke(app, ["study", "report", str(out), "--json"])
    assert '"text": "min MAD, CutMix on - off"' in printed.output
