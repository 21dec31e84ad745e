"""What ``nearsight explore`` gathers from runs, folders and models, and what it refuses."""

import json

import numpy as np
import pytest
from explore.made_pages import MODELS, made_images
from explore.made_runs import made_look, part_subject, write_looked_run, write_model, write_study
from PIL import Image
from runs.made_records import epoch_line, measure_contents

import nearsight as ns
from nearsight.core import UserError
from nearsight.explore.folders import find_folders
from nearsight.explore.head_numbers import measured_numbers, profile_numbers, training_looks
from nearsight.explore.runs_table import run_rows, study_contents
from nearsight.explore.targets import explore_targets
from nearsight.measure.folders.measure_contents import measurement
from nearsight.runs import Examples, read_log
from nearsight.runs.records import EXAMPLES_FILE, MEASURE_FILE


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    draw = np.random.default_rng(3)
    for number in range(5):
        pixels = draw.integers(0, 256, (37, 41, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.mark.slow
def test_a_model_by_name_is_shown_the_images_of_a_folder(pictures):
    found = explore_targets(["mu"], pictures, random_init=True, num_images=2)
    (subject,) = found.subjects
    assert subject.name == "mu (untrained)"
    assert subject.detail == f"images of {pictures.name}"
    assert [image["name"] for image in subject.examples["images"]] == ["0.png", "1.png"]
    assert subject.numbers["num_images"] == 5
    assert found.runs == ()


@pytest.mark.slow
def test_one_image_file_is_enough(pictures):
    (subject,) = explore_targets(["mu"], pictures / "3.png", random_init=True).subjects
    assert [image["name"] for image in subject.examples["images"]] == ["3.png"]
    assert subject.numbers["names"] is None


@pytest.mark.slow
def test_two_models_are_shown_in_their_order(pictures):
    found = explore_targets(["nano", "mu"], pictures, random_init=True, num_images=1)
    assert [subject.name for subject in found.subjects] == ["nano (untrained)", "mu (untrained)"]


def test_two_runs_of_one_name_are_told_apart(tmp_path):
    folders = [str(write_looked_run(tmp_path / name)) for name in "ab"]
    names = [subject.name for subject in explore_targets(folders).subjects]
    assert names == ["baseline, mu_vit, seed 0 (1)", "baseline, mu_vit, seed 0 (2)"]


@pytest.mark.slow
def test_a_run_shows_the_examples_in_its_folder(tmp_path):
    folder = write_looked_run(tmp_path / "run")
    model = MODELS["plain"]()
    images = made_images("plain")
    from nearsight.measure.readouts import capture_examples

    examples = capture_examples(model, images.inputs, images.pixels, images.names)
    EXAMPLES_FILE.write(folder, examples.contents())
    (subject,) = explore_targets([str(folder)]).subjects
    again = Examples.of_contents(subject.examples)
    assert again.layers == examples.layers
    assert subject.numbers["num_images"] == 11
    assert [look["epoch"] for look in subject.looks] == [0, 2, 4]


@pytest.mark.slow
def test_a_measured_model_is_found_again_by_its_record(tmp_path, pictures):
    folder = write_model(
        tmp_path / "m", name="mu", weights={"from": "random initialisation", "seed": 0}
    )
    (subject,) = explore_targets([str(folder)], pictures, num_images=1).subjects
    assert len(subject.examples["images"]) == 1
    assert subject.numbers["num_images"] == 11  # those of its measure.json
    gone = write_model(tmp_path / "gone", name="mu")
    with pytest.raises(UserError, match=r"/gone .*\bw\.safetensors\b.*--weights"):
        explore_targets([str(gone)], pictures)
    assert explore_targets([str(gone)]).subjects[0].examples is None


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        ([], {}, r"\brun folder\b"),
        (["mu"], {"random_init": True}, "mu needs images .* --images"),
        (["no_such_model"], {}, "no_such_model"),
        (["mu"], {"random_init": True, "num_images": 0}, "--num-images is 0"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_words(targets, options, words):
    with pytest.raises(UserError, match=words):
        explore_targets(targets, **options)


def test_an_empty_folder_and_stray_weights_are_refused(tmp_path):
    with pytest.raises(UserError, match="/test_an_empty_folder"):
        explore_targets([str(tmp_path)])
    folder = write_looked_run(tmp_path / "run")
    with pytest.raises(UserError, match="--weights "):
        explore_targets([str(folder)], weights=[tmp_path / "w"])
    with pytest.raises(UserError, match="--image-size "):
        explore_targets([str(folder)], image_size="64")


def test_a_folder_shows_the_heads_of_its_runs_and_passes_over_damaged_ones(tmp_path):
    for name in ("a", "b"):
        write_looked_run(tmp_path / "runs" / name)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text('{"schema_version": 1, "model": 3}')
    found = explore_targets([str(tmp_path / "runs")])
    assert [subject.name for subject in found.subjects] == ["runs/a", "runs/b"]
    assert all(subject.numbers and len(subject.looks) == 3 for subject in found.subjects)
    assert [row["name"] for row in found.runs] == ["runs/a", "runs/b", "runs/broken"]


def test_runs_and_studies_are_found_at_any_reasonable_depth(tmp_path):
    write_looked_run(tmp_path / "runs" / "deep" / "deeper" / "a")
    write_study(tmp_path / "runs" / "study")
    (tmp_path / "runs" / ".hidden").mkdir()
    (tmp_path / "runs" / ".hidden" / "run.json").write_text("{}")
    found = find_folders([tmp_path / "runs"])
    assert list(found.runs) == [
        "runs/deep/deeper/a",
        "runs/study/cells/0000000000000000",
        "runs/study/cells/0000000000000001",
    ]
    assert list(found.studies) == ["runs/study"]


def test_rows_hold_numbers_with_intervals_and_the_settings_that_differ(tmp_path):
    folders = {
        name: write_looked_run(tmp_path / name, name, 1) for name in ("baseline", "baseline+cutmix")
    }
    first, second = run_rows(folders)
    measure = json.loads((tmp_path / "baseline" / "measure.json").read_text())
    least = measure["summary"]["min_mad"]
    assert first["values"]["min_mad"] == pytest.approx(
        [least["value"], least["low"], least["high"]], abs=1e-5
    )
    assert first["values"]["accuracy"][0] == pytest.approx(0.61)
    assert first["values"]["accuracy"][1] < 0.61 < first["values"]["accuracy"][2]
    assert set(first["settings"]) == set(second["settings"])
    assert all(
        str(first["settings"][key]) != str(second["settings"][key]) for key in first["settings"]
    )
    assert any(key.startswith("cutmix") for key in first["settings"])
    assert first["curve"]["epoch"] == [0, 1, 2, 3, 4, 5]
    assert first["curve"]["min_mad"] == [0.25, None, 0.15, None, 0.05, None]
    assert first["curve"]["train_loss"][1:] == pytest.approx([2, 1, 0.66667, 0.5, 0.4])


def test_long_curves_are_thinned_out_and_keep_their_ends(tmp_path):
    folder = write_looked_run(tmp_path / "run")
    lines = [epoch_line(epoch, train_loss=1.0 / epoch) for epoch in range(1, 501)]
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = run_rows({"run": folder})
    assert len(row["curve"]["epoch"]) <= 61
    assert (row["curve"]["epoch"][0], row["curve"]["epoch"][-1]) == (1, 500)


def test_a_study_that_is_not_finished_shows_what_it_has(tmp_path):
    folder = write_study(tmp_path / "study")
    (folder / "summary.json").unlink()
    (folder / "claims.json").unlink()
    found = study_contents("study", folder)
    assert (found["num_cells"], found["effects"], found["claims"]) == (2, [], [])


def test_looks_hold_the_numbers_of_train_jsonl(tmp_path):
    looks = training_looks(read_log(write_looked_run(tmp_path / "run")))
    assert [look["mad"] for look in looks] == [made_look(x)["mad"]["mean"] for x in (0, 2, 4)]
    assert looks[0]["read_outs"] == []


def recorded(contents):
    """The record of a measure.json with these numbers."""
    return MEASURE_FILE.record(measure_contents() | contents)


@pytest.mark.slow
def test_a_profile_and_its_measure_json_give_the_same_numbers():
    images = made_images("wide", count=5).inputs
    profile = ns.measure_model(MODELS["wide"](), images, metrics="all")
    of_file, of_profile = measured_numbers(recorded(measurement(profile))), profile_numbers(profile)
    assert of_profile == of_file
    assert of_file["mad"]["mean"][2][1] == pytest.approx(profile.mad.mean[2][1], abs=1e-5)
    assert of_file["names"] == profile.head_names


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["locat", "convit"])
def test_parts_of_a_model_come_with_its_numbers(kind):
    numbers = part_subject(kind).numbers
    titles = [x["title"].split()[0] for x in numbers["read_outs"]]
    assert titles == {"locat": ["Widths", "Strengths"], "convit": ["gate"]}[kind]
    model = ns.create_model(f"mu_{kind}", 7)
    if kind == "convit":
        gates = next(iter(ns.gpsa_gates(model).values())).gate
        assert numbers["read_outs"][0]["layers"][0] == pytest.approx(gates, abs=1e-5)


@pytest.mark.slow
def test_another_convention_has_no_numbers_on_the_page():
    images = made_images("wide").inputs
    profile = ns.measure_model(MODELS["wide"](), images).in_convention("convit")
    assert measured_numbers(recorded(measurement(profile))) is None


@pytest.mark.slow
def test_null_lines_come_with_random_initialisation_where_it_was_measured():
    measure = measurement(ns.measure_model(MODELS["wide"](), made_images("wide").inputs))
    untrained = {f"layer_mean_{x}": [0.1, 0.2, 0.6] for x in ("mad", "entropy", "self_mass")}
    measure["null"]["random_init"] = untrained | {"num_images": 3}
    lines = {line["name"]: line for line in measured_numbers(recorded(measure))["null"]}
    assert list(lines) == ["uniform", "3x3 box", "random initialisation"]
    assert lines["random initialisation"]["mad"] == pytest.approx(0.3)
    assert lines["uniform"]["entropy"] == 1


@pytest.mark.slow
def test_the_command_writes_one_page(nearsight, tmp_path, pictures):
    code, out, err = nearsight(
        "explore", "mu", "--random-init", "--images", str(pictures), "--out", "look.html"
    )
    assert (code, out, err) == (0, "look.html\n", "")
    assert (tmp_path / "look.html").read_text().startswith("<!doctype html>")
    code, _, err = nearsight("explore", "mu", "--random-init")
    assert code == 1
    assert err.startswith("nearsight: mu needs images")


def test_serve_says_what_is_missing_without_its_extra(nearsight, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = nearsight("explore", "--serve", str(tmp_path))
    assert code == 1
    assert "pip install '.[web]'" in err
