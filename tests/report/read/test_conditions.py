"""Conditions, intervals over seeds and images, and who stands out."""

import json

import numpy as np
import pytest
from report.example_runs import write_pair, write_run
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from nearsight.core import UserError
from nearsight.measure.catalogue import RUN_NUMBERS
from nearsight.models.layers.grid import Grid
from nearsight.report.read.conditions import paired_difference
from nearsight.report.read.grouping import read_families
from nearsight.report.write.answer import answer, question
from nearsight.report.write.tables import all_heads, conditions_table, interval_note, stands_out
from nearsight.stats.estimate import over_seeds, wilson_interval

ACCURACY, MIN_MAD = (
    next(x for x in RUN_NUMBERS if x.name == name) for name in ("accuracy", "min_mad")
)


def test_the_interval_over_seeds_is_scipys_t_interval():
    values = [0.31, 0.35, 0.33, 0.4, 0.29]
    found = over_seeds(values)
    expected = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)
    assert (found.n, found.over) == (5, "seeds")


def test_the_interval_of_an_accuracy_is_wilsons():
    expected = proportion_confint(523, 1009, method="wilson")
    assert wilson_interval(523 / 1009, 1009) == pytest.approx(expected, abs=1e-12)


def test_the_difference_is_paired_by_seed():
    """The seeds differ more than the conditions; pairing takes that away."""
    one, other = [0.1, 0.5, 0.9], [0.2, 0.6, 1.0]
    assert over_seeds([a - b for a, b in zip(one, other)]).high < 0
    assert over_seeds(one).high > over_seeds(other).low


def test_conditions_pair_only_the_seeds_both_have(tmp_path):
    runs = [write_run(tmp_path / f"b{seed}", "baseline", seed) for seed in (0, 1, 2)]
    runs += [write_run(tmp_path / f"c{seed}", "baseline+cutmix", seed) for seed in (1, 2, 7)]
    (family,) = read_families(runs)
    difference = paired_difference(*family.conditions, "accuracy")
    assert difference.n == 2
    assert difference.value == pytest.approx(-0.1)


def test_bold_needs_several_seeds_and_an_interval_without_zero(tmp_path):
    (single,) = read_families(write_pair(tmp_path / "one"))
    assert not any(
        stands_out(single, c, number) for c in single.conditions for number in RUN_NUMBERS
    )
    (several,) = read_families(write_pair(tmp_path / "three", seeds=(0, 1, 2)))
    baseline, cutmix = several.conditions
    assert stands_out(several, cutmix, ACCURACY)
    assert stands_out(several, cutmix, MIN_MAD)
    assert not stands_out(several, baseline, MIN_MAD)


def test_one_seed_makes_no_claim(tmp_path):
    (family,) = read_families(write_pair(tmp_path))
    text = answer(family)
    assert text.endswith("One seed is not enough for a claim.")
    baseline, cutmix = family.conditions
    for condition in (baseline, cutmix):
        assert f"{condition.runs[0].measure.contents()['summary']['min_mad']['value']:.3f}" in text
    assert f"uniform attention has MAD {Grid(3, 5).uniform_distance():.3f}" in text
    assert question([family]) == "Does CutMix make attention local?"


def test_several_seeds_give_mean_interval_and_n(tmp_path):
    (family,) = read_families(write_pair(tmp_path, seeds=(0, 1, 2)))
    text = answer(family)
    for condition in family.conditions:
        values = [run.measure.contents()["summary"]["min_mad"]["value"] for run in condition.runs]
        x = over_seeds(values)
        assert f"{x.value:.3f} ± {x.high - x.value:.3f}" in text
    assert "for a claim" not in text
    assert text.startswith("CutMix makes the most local head more local: MAD ")
    one, other = (
        [r.measure.contents()["summary"]["min_mad"]["value"] for r in c.runs]
        for c in family.conditions
    )
    change = over_seeds([b - a for a, b in zip(one, other)])
    assert f"a difference of −{-change.value:.3f} (−{-change.low:.3f} to" in text
    assert "paired over 3 seeds" in text


def test_one_condition_with_one_seed_among_several_makes_no_claim(tmp_path):
    runs = write_pair(tmp_path, seeds=(0, 1))[:3]
    (family,) = read_families(runs)
    assert answer(family).endswith("One seed is not enough for a claim.")


def test_conditions_that_differ_by_more_than_cutmix_do_not_ask_about_cutmix(tmp_path):
    runs = [write_run(tmp_path / name, name) for name in ("baseline", "modern")]
    assert question(read_families(runs)) == "How local is attention with baseline and with modern?"


def test_many_conditions_name_the_two_ends(tmp_path):
    names = ("baseline", "modern", "modern-cutmix")
    (family,) = read_families([write_run(tmp_path / name, name) for name in names])
    assert answer(family).startswith("Of 3 conditions, modern has the most local head, with MAD ")


def test_runs_of_other_models_data_or_grids_are_families_of_their_own(tmp_path):
    runs = [
        write_run(tmp_path / "a"),
        write_run(tmp_path / "b", depth=2),
        write_run(tmp_path / "c", grid=Grid(5, 3)),
        write_run(tmp_path / "d", data="cifar100"),
        write_run(tmp_path / "e", "modern"),
    ]
    families = read_families(runs)
    assert [len(family.conditions) for family in families] == [2, 1, 1, 1]


def test_the_same_name_with_other_settings_is_another_condition(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", seed=1, label_smoothing=0.2)]
    (family,) = read_families(runs)
    labels = [condition.label for condition in family.conditions]
    assert labels == ["baseline (label_smoothing=0.0)", "baseline (label_smoothing=0.2)"]
    assert len({condition.colour for condition in family.conditions}) == 2


def test_the_same_protocol_and_seed_twice_is_refused_but_the_same_folder_counts_once(tmp_path):
    run = write_run(tmp_path / "a")
    assert read_families([run, run])[0].conditions[0].num_seeds == 1
    with pytest.raises(UserError, match=f"{run} and {tmp_path / 'b'}"):
        read_families([run, write_run(tmp_path / "b")])


def test_every_protocol_of_the_paper_has_its_own_colour_and_shape(tmp_path):
    from nearsight.protocol.presets import EIGHT

    (family,) = read_families([write_run(tmp_path / name, name) for name in EIGHT])
    looks = {c.label: (c.colour, c.marker, c.line) for c in family.conditions}
    assert len(set(looks.values())) == len(EIGHT)
    assert looks["baseline"] == ("#d55e00", "^", "dashed")
    assert looks["modern"] == ("#0072b2", "o", "solid")


def test_sorted_heads_are_sorted_within_each_seed_before_averaging(tmp_path):
    (family,) = read_families(write_pair(tmp_path, seeds=(0, 1, 2)))
    condition = family.conditions[0]
    for rank, estimate in enumerate(condition.sorted_heads("mad", 1)):
        values = [sorted(run.measure.layers[1].metrics["mad"].mean)[rank] for run in condition.runs]
        assert estimate.value == pytest.approx(sum(values) / 3)


def test_table_rows_are_the_numbers_of_measure_json(tmp_path):
    families = read_families(write_pair(tmp_path))
    rows = conditions_table(families).records()
    summary = families[0].conditions[1].runs[0].measure.contents()["summary"]
    row = rows[1]
    assert (row["condition"], row["grid"], row["accuracy_n"]) == (
        "baseline with CutMix",
        "3x5",
        1009,
    )
    for column, entry in {
        "min_mad": summary["min_mad"],
        "layer1_mad": summary["layer_mean_mad"][0],
        "entropy": summary["mean_entropy"],
        "self_mass": summary["mean_self_mass"],
    }.items():
        found = [row[column], row[f"{column}_low"], row[f"{column}_high"]]
        assert found == [entry["value"], entry["low"], entry["high"]]
    rows = all_heads(families).records()
    assert len(rows) == 2 * 5 * 3
    row = rows[5 * 3 + 3 + 2]
    layer = families[0].conditions[1].runs[0].measure.contents()["layers"][1]
    assert (row["layer"], row["head"]) == (2, 3)
    assert row["self_mass_high"] == layer["self_mass"]["high"][2]


def test_the_interval_of_min_mad_is_explained_by_what_measure_json_says_of_it(tmp_path):
    folders = [write_run(tmp_path / name, name) for name in ("baseline", "modern")]
    path = folders[0] / "measure.json"
    contents = json.loads(path.read_text())
    contents["summary"]["min_mad"]["method"] = "chosen by a coin"
    path.write_text(json.dumps(contents))
    families = read_families(folders)
    method = read_families(folders[1:])[0].conditions[0].min_mad_method
    note = interval_note(families)
    assert f"chosen by a coin; or {method}" in note
    assert "Wilson" in note
