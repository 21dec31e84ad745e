"""A model by name on a folder of images: the same numbers as by hand, recorded whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import write_image
from PIL import Image
from runs.made_records import run_contents
from safetensors.torch import save_file

from nearsight.core import UserError
from nearsight.data.input.preprocessing import IMAGENET_MEAN, IMAGENET_STD
from nearsight.measure.folders.model_folder import default_folder, measure_named
from nearsight.measure.folders.target import measure_target
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.profile.values import read_values
from nearsight.models.load.registry import create_model
from nearsight.native import status
from nearsight.runs.files import file_hash, read_measure, read_record
from nearsight.runs.load import load_run

NUM_PICTURES = 13


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """13 pictures of 41x37 pixels in two folders, and a file that is none."""
    for index in range(NUM_PICTURES):
        write_image(tmp_path / "pictures" / "ab"[index % 2] / f"{index}.png", (41, 37), seed=index)
    (tmp_path / "pictures" / "notes.txt").write_text("no picture")
    return tmp_path / "pictures"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights of mu for 32x48 pixels, large enough that heads differ."""
    torch.manual_seed(11)
    model = create_model("mu", 5, image_size=(32, 48))
    save_file({name: 9 * x for name, x in model.state_dict().items()}, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def by_hand(folder: Path, names: list[str], size: tuple[int, int]) -> torch.Tensor:
    """Scaled to cover, middle cut out, normalised, with plain Pillow and numpy."""
    rows, cols = size
    found = []
    for name in names:
        image = Image.open(folder / name).convert("RGB")
        scale = max(rows / image.height, cols / image.width)
        image = image.resize(
            (int(image.width * scale + 1e-9), int(image.height * scale + 1e-9)),
            Image.Resampling.BICUBIC,
        )
        top, left = round((image.height - rows) / 2), round((image.width - cols) / 2)
        pixels = np.asarray(image)[top : top + rows, left : left + cols] / 255
        found.append((pixels - IMAGENET_MEAN) / IMAGENET_STD)
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).float()


@pytest.mark.slow
def test_the_numbers_are_those_of_the_model_on_the_pictures(
    pictures: Path, weights: Path, tmp_path: Path
):
    done: list[tuple[int, int]] = []
    path = measure_named(
        "mu", pictures, tmp_path / "out", weights=weights, image_size=(32, 48), batch_size=5,
        progress=lambda *counts: done.append(counts),
    )  # fmt: skip
    assert path == tmp_path / "out" / "measure.json"
    counts = [5, 10, 13, 18, 23, 26, 31, 36, 39]  # the model, then two null lines of 13 images
    assert done == [(count, 39) for count in counts]
    profile, names = read_values(tmp_path / "out" / "measure.safetensors")
    assert names == sorted(p.relative_to(pictures).as_posix() for p in pictures.rglob("*.png"))
    model = create_model("mu", 5, image_size=(32, 48))
    torch.manual_seed(11)
    reference = create_model("mu", 5, image_size=(32, 48)).state_dict()
    model.load_state_dict({name: 9 * x for name, x in reference.items()})
    expected = measure_model(model, by_hand(pictures, names, (32, 48)))
    measured = read_measure(tmp_path / "out").contents()
    for layer in range(2):
        assert profile.mad.values[layer] == pytest.approx(expected.mad.values[layer], abs=1e-5)
        assert measured["layers"][layer]["mad"]["low"] == pytest.approx(
            expected.mad.low[layer], abs=1e-5
        )
    assert (np.ptp(np.concatenate(expected.mad.mean))) > 0.02


@pytest.mark.slow
def test_the_record_says_where_everything_came_from(pictures: Path, weights: Path, tmp_path: Path):
    measure_named("mu", pictures, tmp_path / "out", weights=weights, image_size=(32, 48))
    record = read_record(tmp_path / "out").contents()
    assert record["kind"] == "model"
    assert record["weights"] == {
        "from": "file", "file": str(weights), "sha256": file_hash(weights),
    }  # fmt: skip
    assert record["model"]["source"] == "nearsight"
    assert record["preprocessing"]["crop"] == [32, 48]
    assert "classifier head for 5 classes" in record["notes"][0]
    data = record["data"]
    assert (data["num_images"], data["num_available"], data["num_other_files"]) == (13, 13, 1)
    measured = read_measure(tmp_path / "out").contents()
    assert measured["data"] == {"name": "pictures", "hash": data["hash"]}
    native = {"loaded": status().loaded, "compiler": status().compiler}
    assert native.items() <= measured["native"].items()
    assert native.items() <= record["provenance"]["native"].items()
    assert len(measured["null"]["random_init"]["layer_mean_mad"]) == 2
    with pytest.raises(UserError, match=r"/out .*nearsight train"):
        load_run(tmp_path / "out")


@pytest.mark.slow
def test_two_models_see_the_same_pictures_and_others_have_another_hash(
    pictures: Path, tmp_path: Path
):
    def measured(out: str, **options: Any) -> dict[str, Any]:
        path = measure_named("mu", pictures, tmp_path / out, random_init=True, **options)
        return json.loads(path.read_text())["data"]

    assert measured("a", num_images=7) == measured("b", num_images=7, batch_size=2)
    assert measured("c", num_images=7)["hash"] != measured("d", num_images=11)["hash"]


@pytest.mark.slow
def test_prepared_pictures_are_taken_as_they_are(tmp_path: Path):
    folder = tmp_path / "prepared"
    for index in range(3):
        write_image(folder / f"{index}.png", (48, 32), seed=index)
    path = measure_named(
        "mu", folder, tmp_path / "out", random_init=True, resize=False, image_size=(32, 48)
    )
    assert json.loads(path.read_text())["preprocessing"]["resize"] is None
    with pytest.raises(UserError, match=r"mu .* 32x48 pixels .*--image-size"):
        measure_named("mu", folder, tmp_path / "other", random_init=True, resize=False)
    assert not (tmp_path / "other").exists()
    write_image(folder / "9.png", (32, 32))
    with pytest.raises(UserError, match=r"\b0\.png .*32x48 .*\b9\.png .*32x32 .*--no-resize"):
        measure_named("mu", folder, tmp_path / "other", random_init=True, resize=False)


@pytest.mark.slow
def test_images_that_the_grid_does_not_divide_have_no_line_of_shuffled_patches(
    pictures: Path, tmp_path: Path
):
    """Shuffling needs patches that cover the image; timm's cut off what is left over."""
    path = measure_named(
        "vit_tiny_patch16_224", pictures, tmp_path / "out", random_init=True, image_size=(50, 37),
        num_images=3,
    )  # fmt: skip
    found = json.loads(path.read_text())
    assert found["grid"] == [3, 2]
    assert "random_init" in found["null"]
    assert "shuffled_patches" not in found["null"]


@pytest.mark.slow
def test_a_folder_of_something_else_is_not_written_over(pictures: Path, tmp_path: Path):
    measure_named("mu", pictures, tmp_path / "out", random_init=True)
    measure_named("mu", pictures, tmp_path / "out", random_init=True)
    with pytest.raises(UserError, match=r"/out .*\bmu\b.*--out"):
        measure_named("nano", pictures, tmp_path / "out", random_init=True)
    trained = tmp_path / "trained"
    trained.mkdir()
    (trained / "run.json").write_text(json.dumps(run_contents()))
    with pytest.raises(UserError, match=r"/trained .*--out"):
        measure_named("mu", pictures, trained, random_init=True)


@pytest.mark.slow
def test_corrupt_pictures_are_left_out_on_request_and_named(pictures: Path, tmp_path: Path):
    (pictures / "a" / "4.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"a/4\.png .*--skip-corrupt"):
        measure_named("mu", pictures, tmp_path / "out", random_init=True, nulls=False)
    options: dict[str, Any] = {"random_init": True, "nulls": False, "skip_corrupt": True}
    measure_named("mu", pictures, tmp_path / "out", **options)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["data"]["num_images"] == NUM_PICTURES - 1
    assert "Images left out because they cannot be read: 1 (a/4.png)." in record["notes"]
    (pictures / "a" / "4.png").unlink()
    measure_named("mu", pictures, tmp_path / "without", random_init=True, nulls=False)
    skipped, removed = (
        read_values(tmp_path / name / "measure.safetensors") for name in ("out", "without")
    )
    assert skipped == removed


def test_too_few_readable_pictures_are_refused(tmp_path: Path):
    write_image(tmp_path / "pictures" / "a.png", (41, 37))
    (tmp_path / "pictures" / "b.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"\b1 of the 2 images\b.*/pictures"):
        measure_named("mu", tmp_path / "pictures", random_init=True, skip_corrupt=True)


@pytest.mark.slow
def test_places_that_were_measured_are_kept_in_the_output_folder(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from nearsight.measure.layout import found, keep_places

    monkeypatch.setattr(found, "_known", {})
    given: dict[str, Any] = {"image_size": (96, 96), "num_images": 3, "random_init": True,
                             "metrics": ("mad",), "nulls": False}  # fmt: skip
    steps: list[tuple[int, int]] = []
    with keep_places(progress=lambda *step: steps.append(step)):  # as the command does
        measure_named("timm/levit_128s", pictures, tmp_path / "out", **given)
    assert steps[-1] == (100, 100)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    (places,) = json.loads((tmp_path / "out" / "places.json").read_text()).values()
    assert len(places["calls"]) == 11
    monkeypatch.setattr(found, "_known", {})
    monkeypatch.setattr(found, "place_model", None)  # would fail if the model were placed again
    before = (tmp_path / "out" / "measure.json").read_bytes()
    measure_named("timm/levit_128s", pictures, tmp_path / "out", force=True, **given)
    after = read_measure(tmp_path / "out").contents()["layers"]
    assert after == json.loads(before)["layers"]


def test_the_folder_is_named_for_the_model():
    assert default_folder("timm/vit_tiny.augreg") == Path("runs/timm-vit_tiny.augreg")
    assert default_folder("hf/../up") == Path("runs/hf-..-up")
    assert default_folder("hf//models/x/") == Path("runs/hf-models-x")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"images": "nowhere", "random_init": True}, r"\bnowhere\b"),
        ({}, r"\bmu\b.*--images DIR"),
        ({"images": "pictures"}, r"\bmu\b.*--weights FILE"),
        (
            {"images": "pictures", "random_init": True, "num_images": 99},
            r"\b99\b.*\bpictures\b.*\b13\b",
        ),
        ({"images": "pictures", "random_init": True, "image_size": "32x"}, "'32x'.* N or HxW"),
        ({"images": "pictures", "random_init": True, "metrics": "mda"}, r"'mda'.*\bmean mad\b"),
        ({"images": "pictures", "random_init": True, "convention": "x"}, r"'x'.*\bpaper, convit\b"),
        ({"images": "pictures", "weights": "no.pth"}, r"\bno\.pth\b"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_folder(
    options: dict[str, Any], words: str, pictures: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(pictures.parent)
    paths = {key: Path(options[key]) for key in ("images", "weights") if key in options}
    with pytest.raises(UserError, match=words):
        measure_target("mu", **options | paths)
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_target_is_a_run_or_a_model(pictures: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"^muu .*\brun\.json\b"):
        measure_target("muu")
    out = measure_target("mu", pictures, tmp_path / "out", random_init=True).parent
    with pytest.raises(UserError, match=r"/out .*\bmodel\b.*\brun\b"):
        measure_target(str(out))
    (out / "run.json").write_text(json.dumps(run_contents()))
    with pytest.raises(UserError, match=r"/out .*--images, --no-resize"):
        measure_target(str(out), pictures, resize=False)


@pytest.mark.slow
def test_a_measurement_of_something_else_is_written_over_only_by_force(
    pictures: Path, weights: Path, tmp_path: Path
):
    out = tmp_path / "out"
    given: dict[str, Any] = {"weights": weights, "image_size": (32, 48), "num_images": 5}
    measure_named("mu", pictures, out, **given)
    write_image(tmp_path / "others" / "0.png", (41, 37), seed=99)
    for index in range(4):
        write_image(tmp_path / "others" / f"{index + 1}.png", (41, 37), seed=index)
    other = tmp_path / "other.safetensors"
    save_file(create_model("mu", 5, image_size=(32, 48)).state_dict(), other)
    before = (out / "measure.json").read_bytes()
    for images, changes, words in (
        (
            pictures,
            {"convention": "pixels"},
            "with convention paper, which would be lost; .* --force",
        ),
        (pictures, {"num_images": 7}, "with 5 images"),
        (pictures, {"metrics": ("mad",)}, "the metrics entropy"),
        (tmp_path / "others", {}, r"of other images \(pictures\)"),
        (pictures, {"weights": other}, "of other weights"),
    ):
        with pytest.raises(UserError, match=words):
            measure_named("mu", images, out, **given | changes)
        assert (out / "measure.json").read_bytes() == before
    measure_named("mu", pictures, out, **given)  # the same again
    measure_named("mu", pictures, out, **given, metrics="all")  # nothing is lost
    measure_named("mu", tmp_path / "others", out, **given, force=True)
    assert read_measure(out).data.name == "others"
