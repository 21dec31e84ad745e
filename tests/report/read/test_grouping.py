"""Several models in one report: what a condition is called, and what is said of it."""

import json
import re
from dataclasses import asdict

import pytest
from report.example_runs import write_run
from report.figures.test_null_lines import with_nulls

from nearsight.explore import write_report
from nearsight.protocol import GaussianSettings, LocatSettings
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.heads.depth import depth_profiles
from nearsight.report.figures.null_lines import named_randoms
from nearsight.report.read.grouping import read_families
from nearsight.report.write.answer import answer, question
from nearsight.report.write.terminal_table import print_measurements


def demo_runs(root, seeds=(0,)):
    """The runs of make demo: the plain ViT with and without CutMix, the ViT with LocAt."""
    chosen = (("baseline", "mu_vit"), ("baseline+cutmix", "mu_vit"), ("baseline", "mu_locat"))
    return [
        write_run(root / f"{name}-{model}-{seed}", name, seed, model=model)
        for name, model in chosen
        for seed in seeds
    ]


def with_locat(folder, settings):
    """The run as if it had been started with --set model.locat={...}."""
    record = json.loads((folder / "run.json").read_text())
    record["protocol"]["model"]["locat"] = asdict(settings)
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_models_of_one_geometry_share_figures_by_names_and_colours_of_their_own(tmp_path):
    (family,) = read_families(demo_runs(tmp_path))
    labels = [condition.label for condition in family.conditions]
    assert labels == [
        "mu_vit by baseline",
        "mu_vit by baseline with CutMix",
        "mu_locat by baseline",
    ]
    assert len({condition.colour for condition in family.conditions}) == 3
    assert family.name == "2 models on shapes, 3x5 patches"


def test_question_and_answer_name_what_each_condition_adds(tmp_path):
    (family,) = read_families(demo_runs(tmp_path))
    least = [c.runs[0].measure.contents()["summary"]["min_mad"]["value"] for c in family.conditions]
    assert question([family]) == "Do CutMix and LocAt make attention local?"
    text = answer(family)
    found = re.search(
        r"The most local head has MAD ([\d.]+) with CutMix and ([\d.]+) with LocAt, "
        r"against ([\d.]+) without \(mu_vit by baseline\)\.",
        text,
    )
    assert [float(x) for x in found.groups()] == pytest.approx(
        [least[1], least[2], least[0]], abs=5e-4
    )
    assert text.endswith("One seed is not enough for a claim.")


def test_several_seeds_give_every_addition_a_paired_difference(tmp_path):
    (family,) = read_families(demo_runs(tmp_path, seeds=(0, 1, 2)))
    text = answer(family)
    assert re.search(r"CutMix makes the most local head more local: .*? −0\.\d+ \(.*?3 seeds", text)
    assert re.search(r"LocAt has no effect on the most local .*? [+−]0\.000 \(.*?3 seeds", text)
    assert "for a claim" not in text


def test_models_by_one_protocol_go_by_their_names(tmp_path):
    models = ("mu_gaug", "mu_prr", "mu_vit", "mu_locat")
    (family,) = read_families([write_run(tmp_path / x, model=x) for x in models])
    assert tuple(condition.label for condition in family.conditions) == models
    assert family.name == "4 models by baseline on shapes, 3x5 patches"
    assert question([family]) == "Do GAug, PRR and LocAt make attention local?"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": "wide_locat"}, "How local is attention in mu_vit and wide_locat?"),
        ({"model": "mu_locat", "label_smoothing": 0.2}, "in mu_vit and mu_locat?"),
        ({"name": "modern", "model": "mu_locat"}, "with modern in mu_vit and mu_locat?"),
    ],
)
def test_a_model_that_differs_by_more_than_locat_is_not_asked_about(changes, expected, tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", **changes)]
    assert question(read_families(runs)).endswith(expected)


def test_variants_of_one_model_go_by_the_settings_that_are_not_the_papers(tmp_path):
    laplace = LocatSettings(gaussian=GaussianSettings(kernel="laplace"))
    runs = [
        write_run(tmp_path / "a", model="mu_locat"),
        with_locat(write_run(tmp_path / "b", model="mu_locat"), laplace),
    ]
    (family,) = read_families(runs)
    labels = [condition.label for condition in family.conditions]
    assert labels == ["baseline", "baseline (kernel=laplace)"]
    same = [*runs, with_locat(write_run(tmp_path / "c", model="mu_locat"), LocatSettings())]
    (family,) = read_families(same)
    assert len({condition.label for condition in family.conditions}) == 3


@pytest.mark.slow
def test_every_architecture_has_a_random_initialisation_of_its_own(tmp_path):
    runs = demo_runs(tmp_path)
    for run, random in zip(runs, (0.40, 0.44, 0.2)):
        with_nulls(run, random, 0.1)
    (family,) = read_families(runs)
    (plain, first), (locat, second) = named_randoms(family, "mad")
    assert (plain, locat) == ("mu_vit", "mu_locat")
    assert (first[0], second[0]) == (pytest.approx(0.42), pytest.approx(0.2))
    drawing = depth_profiles(family, "depth", "")
    found = {row[0]: row[-2] for row in drawing.rows if row[1:3] == ("mad", 1)}
    assert found["mu_locat by baseline"] == pytest.approx(0.2)
    assert found["mu_vit by baseline with CutMix"] == pytest.approx(0.42)
    drawn = "".join(panel_svgs(drawing))
    assert "init mu_vit" in drawn
    assert "init mu_locat" in drawn


@pytest.mark.slow
def test_page_and_terminal_name_the_model_of_every_run(tmp_path, capsys):
    runs = demo_runs(tmp_path)
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert "mu_locat by baseline on shapes, 3x5 patches" in text
    print_measurements(runs)
    lines = capsys.readouterr().out.splitlines()
    for name in ("baseline, mu_vit, ", "baseline with CutMix, ", "baseline, mu_locat, "):
        assert sum(line.startswith(name) for line in lines) == 1


def test_a_convit_beside_the_plain_vit_is_one_change(tmp_path):
    folders = [
        write_run(tmp_path / model, "baseline", 0, model=model) for model in ("mu_vit", "mu_convit")
    ]
    (family,) = read_families(folders)
    assert question([family]) == "Does ConViT make attention local?"
    assert re.search(r"MAD [\d.]+ with ConViT, against [\d.]+ without", answer(family))


def test_a_condition_that_takes_a_part_away_is_not_read_as_having_it(tmp_path):
    names = ("modern", "modern-autoaugment", "baseline+labelsmoothing")
    runs = [write_run(tmp_path / name, name) for name in names]
    (family,) = read_families(runs)
    labels = [condition.label for condition in family.conditions]
    assert labels == ["modern", "modern without AutoAugment", "baseline with label smoothing"]
    assert [run.record.name for c in family.conditions for run in c.runs] == [
        f"{label}, mu_vit, seed 0" for label in labels
    ]
    colours = [condition.colour for condition in family.conditions]
    assert colours == ["#0072b2", "#e69f00", "#56b4e9"]
    assert "modern-autoaugment" not in answer(family)
