"""Measured null lines and looks at attention while training reach the figures as numbers."""

import json

import pytest
from report.example_runs import write_pair, write_run

from nearsight.explore import write_report
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.heads.depth import depth_profiles
from nearsight.report.figures.null_lines import named_randoms, random_nulls, shuffled_nulls
from nearsight.report.figures.training.onset import looks, onset_curves
from nearsight.report.read.grouping import read_families

DEPTH, HEADS = 5, 3


def with_nulls(folder, random, shuffled):
    """The folder with nulls that rise by 0.01 a layer."""
    path = folder / "measure.json"
    measure = json.loads(path.read_text())
    for name, first in (("random_init", random), ("shuffled_patches", shuffled)):
        values = [first + 0.01 * layer for layer in range(DEPTH)]
        means = {f"layer_mean_{metric}": values for metric in ("mad", "entropy", "self_mass")}
        measure["null"][name] = {"num_images": 7, **means}
    path.write_text(json.dumps(measure))
    return folder


def with_looks(folder, epochs, first):
    """The folder with heads that come closer by 0.01 an epoch, in falling order."""
    path = folder / "train.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["epoch"] in epochs:
            heads = [first - 0.01 * line["epoch"] + 0.05 * rank for rank in (2, 1, 0)]
            mad = {part: [heads] * DEPTH for part in ("mean", "low", "high")}
            line["attention"] = {"num_images": 7, "mad": mad}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_random_initialisation_is_averaged_over_an_architecture_and_shuffles_over_a_condition(
    tmp_path,
):
    runs = write_pair(tmp_path, seeds=(0, 1))
    for run, random, shuffled in zip(runs, (0.40, 0.42, 0.44, 0.46), (0.1, 0.2, 0.3, 0.5)):
        with_nulls(run, random, shuffled)
    (family,) = read_families(runs)
    rising = [0.43 + 0.01 * i for i in range(DEPTH)]
    for condition in family.conditions:
        assert random_nulls(family, condition, "mad") == pytest.approx(rising)
    first, second = (shuffled_nulls(c, "mad")[0] for c in family.conditions)
    assert (first, second) == (pytest.approx(0.15), pytest.approx(0.40))


@pytest.mark.slow
def test_a_result_without_measured_nulls_is_drawn_without_them(tmp_path):
    (family,) = read_families(write_pair(tmp_path))
    assert named_randoms(family, "mad") == []
    drawing = depth_profiles(family, "depth", "")
    assert {row[-2:] for row in drawing.rows} == {(None, None)}
    assert "random init" not in "".join(panel_svgs(drawing))


@pytest.mark.slow
def test_the_figure_of_layers_holds_means_and_nulls(tmp_path):
    run = with_nulls(write_run(tmp_path / "a"), 0.41, 0.21)
    (family,) = read_families([run])
    drawing = depth_profiles(family, "depth", "")
    summary = json.loads((run / "measure.json").read_text())["summary"]
    rows = {(row[1], row[2]): row for row in drawing.rows}
    for layer in range(DEPTH):
        found = rows["mad", layer + 1]
        assert found[3] == pytest.approx(summary["layer_mean_mad"][layer]["value"])
        assert found[-2:] == pytest.approx((0.41 + 0.01 * layer, 0.21 + 0.01 * layer))
    drawn = "".join(panel_svgs(drawing))
    for name in ("uniform", "3x3 box", "random init", "shuffled"):
        assert name in drawn


def test_looks_while_training_are_averaged_over_seeds_head_by_sorted_head(tmp_path):
    runs = [write_run(tmp_path / f"{seed}", seed=seed) for seed in (0, 1)]
    with_looks(runs[0], (2, 4), first=0.30)
    with_looks(runs[1], (2, 4, 5), first=0.20)
    (family,) = read_families(runs)
    found = looks(family.conditions[0])
    assert [epoch for epoch, _ in found] == [2, 4]
    assert found[1][1][0] == pytest.approx([0.21, 0.26, 0.31])


@pytest.mark.slow
def test_the_page_shows_when_locality_appears_only_where_it_was_looked_at(tmp_path):
    plain, looked = write_run(tmp_path / "plain"), write_run(tmp_path / "looked")
    with_looks(looked, (2, 4), first=0.3)
    texts = [
        write_report([run], tmp_path / f"{run.name}.html").read_text() for run in (plain, looked)
    ]
    assert ["When locality appears" in text for text in texts] == [False, True]
    (family,) = read_families([looked])
    drawing = onset_curves(family, "onset", "")
    assert "0.260 in epoch 4" in drawing.alt
    assert len(drawing.rows) == 2 * DEPTH * HEADS
