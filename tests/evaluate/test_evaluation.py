"""Whole evaluations: models, controls, results that are kept, and what users do wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from data.segmentation.made_masks import write_folder
from evaluate.made_sets import bench_of, pictures, small_model, small_subject
from measure.folders.test_run_folder import dataset, write_mu_run
from typer.testing import CliRunner

from nearsight.cli.app import app
from nearsight.core import UserError
from nearsight.evaluate import (
    EVALUATE_STAGE,
    benches,
    evaluate_model,
    evaluate_targets,
    evaluation,
    read_evaluation,
)
from nearsight.evaluate.features import (
    FeatureCache,
    image_splits,
    open_subject,
    stored_caches,
)
from nearsight.evaluate.tasks import TASKS
from nearsight.measure.profile import measure_model
from nearsight.report.figures.drawing import panel_svgs
from nearsight.report.figures.evaluation import evaluation_drawings
from nearsight.report.read import published_beside, read_evaluations
from nearsight.report.write import evaluation_tables
from nearsight.runs.records import EVALUATE_FILE
from nearsight.stats import image_interval

LOCAT = {"tasks": "segmentation", "method": "locat"}


@pytest.fixture
def made_sets(monkeypatch):
    """Opens made-up pictures whatever data set is asked for."""

    def opened(data, root, split, num):
        found = pictures(23 if split == "train" else 11, 0 if split == "train" else 1)
        return found if data != "other" or split == "val" else replace(found, classes=("a", "b"))

    monkeypatch.setattr(benches, "OPENERS", {"masks": opened, "labels": opened})


def evaluated(cache, tasks="hummingbird", seed=3, **settings):
    given = {"cache": cache, "say": lambda text: None, "image_size": (24, 40)}
    return evaluate_model(small_model(seed), "made", tasks, **given | settings)


@pytest.mark.slow
def test_a_model_stands_beside_its_controls(made_sets, tmp_path) -> None:
    said = []
    found = evaluated(tmp_path, say=said.append, name="mu")
    rows = found.to_pandas()
    whole = rows[rows.number == "mIoU"].set_index("control", drop=False)
    assert set(whole.control.dropna()) == {
        "random initialisation", "pixel statistics", "position only",
    }  # fmt: skip
    assert "the cache takes" in said[0]
    assert "of evaluation" in said[0]
    assert "of disk are free" in said[0]
    assert "mu: mIoU" in repr(found)
    assert whole.n.eq(11).all()
    pixel, position = (whole.loc[name, "value"] for name in ("pixel statistics", "position only"))
    assert pixel > position  # the made-up classes are colours


@pytest.mark.slow
@pytest.mark.parametrize(("task", "method"), [
    *(("segmentation", x.name) for x in TASKS["segmentation"].methods),
    ("knn", "dino"), ("linear", "logreg"), ("linear", "dino"),
])  # fmt: skip
def test_every_method_announces_how_long_it_takes(tmp_path, task, method) -> None:
    (found,) = [x for x in TASKS[task].methods if x.name == method]
    kind = TASKS[task].kind
    train = pictures(211, 0) if task == "knn" else pictures(23, 0)
    bench = bench_of(
        tmp_path, method, dict(found.options), kind, task=task, place=found.place, train=train
    )
    assert bench.sizes[:2] == (3, 5)
    larger = {"train": pictures(40 * len(train), 0), "val": pictures(40 * 11, 1)}
    once, more = found.seconds(bench), found.seconds(replace(bench, **larger))
    if "steps" in found.options:  # a head takes as many steps, whatever the number of images
        few, many = ({**found.options, "steps": steps} for steps in (10, 1000))
        once, more = (found.seconds(replace(bench, options=x)) for x in (few, many))
    assert 0 < once < more


@pytest.mark.slow
def test_two_models_are_compared_in_pairs(made_sets, tmp_path) -> None:
    one, other = (evaluated(tmp_path, seed=seed, controls=False) for seed in (3, 5))
    found = {each.number: each for each in one.compare(other)}
    mine, theirs = (x.outcomes[0].numbers["mIoU"].finding for x in (one, other))
    values = [image_interval(x.number, x.records).value for x in (mine, theirs)]
    assert found["mIoU"].estimate.value == pytest.approx(values[0] - values[1])
    assert "n = 11 images" in str(found["mIoU"])
    same = one.compare(one)[0].estimate
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_evaluations_without_a_task_in_common_cannot_be_compared(made_sets, tmp_path) -> None:
    one = evaluated(tmp_path, controls=False)
    other = evaluated(tmp_path, "class-attention", controls=False)
    with pytest.raises(UserError, match="VisionTransformer and VisionTransformer"):
        one.compare(other)


def test_a_bad_mask_is_found_before_anything_is_extracted(made_sets, tmp_path, monkeypatch) -> None:
    def opened(data, root, split, num):
        found = pictures(11, 1)

        def mask(number):
            if split == "val" and number == 10:
                raise UserError("the mask 10.png has no pixel whose class is known")
            return found.mask(number)

        return replace(found, masks=mask)

    monkeypatch.setattr(benches, "OPENERS", {"masks": opened})
    with pytest.raises(UserError, match=r"\b10\.png\b"):
        evaluated(tmp_path, controls=False)
    assert not stored_caches(tmp_path)


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(made_sets, tmp_path, monkeypatch) -> None:
    first = evaluated(tmp_path)
    task = TASKS["segmentation"]

    def fails(bench):
        raise AssertionError("it was finished before")

    monkeypatch.setitem(TASKS, "segmentation", replace(task, run=fails))
    again = evaluated(tmp_path)
    assert repr(again) == repr(first)
    with pytest.raises(AssertionError, match="finished before"):
        evaluated(tmp_path, options={"k": 7})  # another option is another outcome


@pytest.mark.slow
def test_an_evaluation_is_read_back_as_it_was_written(made_sets, tmp_path) -> None:
    found = evaluated(tmp_path / "cache", "hummingbird,class-attention", controls=False)
    found.write(tmp_path / "run")
    back = read_evaluation(tmp_path / "run")
    assert repr(back) == repr(found)
    own, read = (x.outcomes[1].numbers["Jaccard (compat)"].finding for x in (found, back))
    assert own.settings["void"] == read.settings["void"] == "no object, but wrong to cover"
    np.testing.assert_array_equal(own.records, read.records)
    shown = back.outcomes[0].numbers["mIoU"].finding.examples
    assert set(shown) == {"image", "truth", "predicted", "neighbours"}
    more = evaluated(tmp_path / "cache", "hummingbird", controls=False, options={"k": 7})
    more.write(tmp_path / "run")
    merged = read_evaluation(tmp_path / "run")
    assert [x.task for x in merged.outcomes] == ["segmentation", "class-attention"]
    assert merged.outcomes[0].settings["k"] == 7


@pytest.mark.slow
def test_every_layer_has_its_own_numbers(made_sets, tmp_path) -> None:
    found = evaluated(tmp_path, layer="all", controls=False)
    assert [outcome.layer for outcome in found.outcomes] == [1, 2]
    first, second = (x.numbers["mIoU"].finding.records for x in found.outcomes)
    assert (first != second).any()


@pytest.mark.slow
def test_layers_and_models_stand_beside_how_far_they_look(made_sets, tmp_path) -> None:
    for name, seed in (("one", 3), ("two", 5)):
        found = evaluated(
            tmp_path / "cache",
            "hummingbird,linear",
            seed,
            name=name,
            layer="all",
            options={"C": 0.1},
        )
        found.write(tmp_path / name)
    bench = bench_of(tmp_path)
    batch = torch.cat(list(bench.images(bench.val)))
    mads = measure_model(small_model(5), batch, metrics=("mad",)).mad.mean
    expected = [float(np.mean(heads)) for heads in mads]
    distances = read_evaluation(tmp_path / "two").distances
    assert distances.num_images == 11
    assert distances.mad == pytest.approx(expected, rel=1e-5)
    folders = read_evaluations([tmp_path / "one", tmp_path / "two"])
    tables = {table.key: table for table in evaluation_tables(folders)}
    lines = tables["segmentation-hummingbird"].csv().splitlines()
    assert lines[0].startswith("subject,layer,mad,")
    cells = {tuple(line.split(",")[:2]): line.split(",")[2] for line in lines}
    assert float(cells["two", "1"]) == pytest.approx(expected[0], rel=1e-3)
    assert cells["position only", "1"] == ""  # it has no attention, and both share it
    order = [tuple(line.split(",")[:2]) for line in lines[1:5]]
    assert order == [("one", "1"), ("one", "2"), ("two", "1"), ("two", "2")]
    assert {x.key for x in evaluation_tables(folders, {("linear", "logreg")})} == {
        "linear-logreg", "evaluation-pairs",
    }  # fmt: skip
    drawings = {drawing.key: drawing for drawing in evaluation_drawings(folders)}
    layers, models = drawings["evaluate-layers"], drawings["evaluate-models"]
    assert {row[1:3] for row in layers.rows} == {("one", 1), ("one", 2), ("two", 1), ("two", 2)}
    of_two = [row[3] for row in models.rows if row[1] == "two"]
    assert of_two == pytest.approx([np.mean(expected)] * 2, rel=1e-5)
    assert len(models.panels) == len(layers.panels) == 2  # Hummingbird and the linear probe
    assert all("<svg" in svg for drawing in (layers, models) for svg in panel_svgs(drawing))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": "segmentatoin"}, r"'segmentatoin'.*\bsegmentation\b"),
        ({"tasks": "segmentation", "method": "humingbird"}, r"'humingbird'.*\bhummingbird\b"),
        ({"layer": "3"}, r"--layer is '3'.*\b1 to 2\b"),
        ({"place": "head"}, "--place is 'head'"),
        ({"statistics": "mine"}, "--statistics is 'mine'"),
        ({"options": {"kk": 3}}, r"'kk'.*\bk\b"),
        ({"options": {"k": "many"}}, r"^k is 'many'.*\b30\b"),
        ({"options": {"k": 3000}}, r"\b3000 neighbours\b.*\b345\b"),
        ({"options": {"k": 0}}, r"^k is 0\b.*\b1\b"),
        ({"options": {"temperature": 0.0}}, r"^temperature is 0\.0\b.*\b0\.0001\b"),
        ({"options": {"temperature": "nan"}}, "temperature is nan"),
        ({"tasks": "segmentation", "options": {"C": -1}}, r"^C is -1\.0\b"),
        (LOCAT | {"options": {"scale": "half"}}, r"^scale is 'half'.*\bcached or full\b"),
        (LOCAT | {"options": {"steps": -4}}, r"^steps is -4\b.*\b0\b"),
        (LOCAT | {"options": {"seeds": 0}}, r"^seeds is 0\b.*\b1\b"),
        ({"tasks": "linear", "options": {"C": "nan"}}, "C is nan"),
        ({"tasks": "knn", "options": {"tokens": "cls"}}, "tokens is 'cls', .* class, patches"),
        ({"tasks": "class-attention", "options": {"mass": 2}}, "mass is 2.0"),
        ({"tasks": "occlusion", "options": {"fill": "white"}}, "fill is 'white', .* black, mean"),
        ({"tasks": "occlusion", "options": {"kinds": "random,corner"}}, "kinds has 'corner'"),
        ({"tasks": "occlusion", "options": {"draws": 0}}, "draws is 0"),
        ({"data": "other"}, r"\bother\b.*\b2 classes\b.*\b3\b"),
    ],
)
def test_what_does_not_exist_is_an_error(made_sets, tmp_path, settings, message) -> None:
    given = {"data": "made", "tasks": "hummingbird", "controls": False, **settings}
    data, tasks = given.pop("data"), given.pop("tasks")
    with pytest.raises(UserError, match=message):
        evaluate_model(
            small_model(), data, tasks, cache=tmp_path, image_size=(24, 40),
            say=lambda text: None, **given,
        )  # fmt: skip


@pytest.mark.slow
def test_tables_and_figures_show_models_controls_and_pairs(made_sets, tmp_path) -> None:
    for name, seed in (("one", 3), ("two", 5)):
        found = evaluated(tmp_path / "cache", "hummingbird,class-attention", seed, name=name)
        found.write(tmp_path / name)
    folders = read_evaluations([tmp_path / "one", tmp_path / "two", tmp_path / "none"])
    tables = {table.key: table for table in evaluation_tables(folders)}
    text = tables["segmentation-hummingbird"].csv()
    assert "random initialisation" in text
    assert "void: neither in the memory nor scored" in tables["segmentation-hummingbird"].note
    pairs = tables["evaluation-pairs"].csv()
    assert "one − two" in pairs
    drawings = {drawing.key: drawing for drawing in evaluation_drawings(folders)}
    assert set(drawings) == {"evaluate-classes", "evaluate-masks", "evaluate-neighbours"}
    bars = drawings["evaluate-classes"]
    first = read_evaluation(tmp_path / "one").outcomes[0].numbers["mIoU"].finding
    assert bars.rows[1][4] == first.details["per_class"]["red"][0]
    assert bars.subtitle == "IoU of every class · one (blue), two (vermilion)"
    masks = drawings["evaluate-masks"]
    assert len(masks.panels) == 2
    assert all("<svg" in svg for drawing in drawings.values() for svg in panel_svgs(drawing))


def test_published_numbers_stand_beside_the_same_method_and_model() -> None:
    (plain,) = published_beside("hummingbird", "voc2012", ["vit_tiny_patch16_224"])
    assert (plain.model, plain.value) == ("ViT-Ti", 0.392)
    (changed,) = published_beside("hummingbird", "voc2012", ["locatvit_tiny"])
    assert changed.value == 0.503
    assert published_beside("hummingbird", "voc2012", ["deit_tiny_patch16_224"]) == []
    found = published_beside("open-hummingbird", "voc2012", ["vit_small_patch14_dinov2.lvd142m"])
    assert [(x.model, x.value) for x in found] == [
        ("DINOv2 S/14", pytest.approx(x)) for x in (0.702, 0.749, 0.77)
    ]  # fmt: skip
    assert len({x.setting for x in found}) == 3
    knn = published_beside("dino", "imagenet", ["locatvit_small"])
    assert {x.number: x.value for x in knn}["top1 of 20"] == pytest.approx(0.6374)
    (linear,) = published_beside("dinov2", "voc2012", ["vit_base_patch14_dinov2.lvd142m"])
    assert (linear.value, linear.source) == (pytest.approx(0.825), "DINOv2")
    (deit,) = published_beside("mass", "voc2012", ["deit_tiny_patch16_224"])
    assert (deit.number, deit.value) == ("Jaccard (compat)", 0.322)


@pytest.mark.slow
def test_results_of_other_weights_are_not_overwritten(made_sets, tmp_path, monkeypatch) -> None:
    subjects = {"a": small_subject(3), "b": small_subject(5)}
    monkeypatch.setattr(evaluation, "open_subject", lambda target, **given: subjects[target])
    settings = benches.Settings(
        tasks="hummingbird", options={"k": 5}, controls=False, cache=tmp_path / "cache"
    )
    said = []
    given = {"out": tmp_path / "out", "say": said.append}
    assert evaluate_targets(["a"], settings, estimate=True, **given) == []
    assert not (tmp_path / "out").exists()
    assert "of evaluation" in said[0]
    evaluate_targets(["a"], settings, **given)
    before = (tmp_path / "out" / "evaluate.json").read_bytes()
    with pytest.raises(UserError, match=r"/out .*--out.*/out/evaluate\.json"):
        evaluate_targets(["b"], settings, **given)
    assert (tmp_path / "out" / "evaluate.json").read_bytes() == before
    with pytest.raises(UserError, match=r"^a .*--out"):
        evaluate_targets(["a", "a"], settings)


@pytest.mark.slow
def test_the_command_evaluates_a_folder_of_masks(tmp_path) -> None:
    write_folder(tmp_path / "data")
    result = CliRunner().invoke(
        app,
        [
            "evaluate", "vit_tiny_patch16_224", "--random-init", "--image-size", "32",
            "--task", "segmentation", "--method", "hummingbird", "--data", str(tmp_path / "data"),
            "--set", "k=3", "--no-controls", "--out", str(tmp_path / "out"),
            "--figures", str(tmp_path / "figures"), "--data-root", str(tmp_path), "--device", "cpu",
        ],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    contents = json.loads((tmp_path / "out" / "evaluate.json").read_text())
    assert contents["results"][0]["settings"]["k"] == 3
    assert (tmp_path / "figures" / "evaluate-masks.svg").is_file()
    listed = CliRunner().invoke(app, ["data", "cache", "--data-root", str(tmp_path)])
    assert "vit_tiny_patch16_224 (untrained), layer 12 (block)" in listed.output
    assert "1 finished or interrupted evaluations" in listed.output
    CliRunner().invoke(app, ["data", "cache", "--delete", "all", "--data-root", str(tmp_path)])
    listed = CliRunner().invoke(app, ["data", "cache", "--data-root", str(tmp_path)])
    assert listed.output.startswith("0 caches")


def test_a_run_is_evaluated_on_its_own_data_as_a_stage_of_a_study(tmp_path, monkeypatch) -> None:
    folder = write_mu_run(tmp_path / "run", monkeypatch)
    monkeypatch.setattr(image_splits, "load_dataset", lambda *given: dataset())
    path = EVALUATE_STAGE.function(
        folder, tasks="linear", options={"C": 0.1}, controls=False, data_root=tmp_path
    )
    assert path == folder / "evaluate.json"
    (result,) = EVALUATE_FILE.read(folder).results
    assert (result.task, result.data.name, result.data.num_val) == ("linear", "shapes", 23)
    assert result.numbers[0].value == 1.0  # all its images are of the first class


def test_runs_are_classified_on_what_they_were_trained_on(tmp_path, monkeypatch) -> None:
    folder = write_mu_run(tmp_path / "run", monkeypatch)
    asked = []

    def opened(data, root, split, num):
        asked.append((data, split))
        return pictures(23, 0)

    monkeypatch.setattr(benches, "OPENERS", {"masks": opened, "labels": opened})
    cache = FeatureCache(tmp_path)
    for data in (None, "cifar10"):
        settings = benches.Settings(tasks="knn,segmentation", data=data, options={}, controls=False)
        list(benches.plan_benches(open_subject(str(folder)), settings, cache, None))
    assert [name for name, split in asked if split == "train"] == [
        "shapes", "voc2012", "cifar10", "cifar10",
    ]  # fmt: skip


def test_a_damaged_record_of_images_is_an_error(made_sets, tmp_path) -> None:
    evaluated(tmp_path / "cache", controls=False).write(tmp_path / "run")
    (tmp_path / "run" / "evaluate.npz").write_bytes(b"no arrays")
    with pytest.raises(UserError, match=r"/evaluate\.json .*\bevaluate\.npz\b"):
        read_evaluation(tmp_path / "run")
    record = tmp_path / "run" / "evaluate.json"  # older ones have no hashes
    record.write_text(json.dumps(json.loads(record.read_text()) | {"files": {}}))
    with pytest.raises(UserError, match=r"/evaluate\.npz .*nearsight evaluate"):
        read_evaluation(tmp_path / "run")


def test_the_cache_of_results_is_below_that_of_features(tmp_path) -> None:
    bench = bench_of(tmp_path)
    assert bench.result.parent == FeatureCache(tmp_path).folder / "results"
    assert bench.key != replace(bench, layer=1).key
