"""The measurement of a trained run, written into its folder."""

import base64
import io
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from measure.profile.test_profile import sharp_model
from PIL import Image
from runs.made_records import DATA, run_contents
from safetensors.torch import save_file

import nearsight as ns
from nearsight.core import UserError
from nearsight.data.sets.dataset import Dataset, ImageSet
from nearsight.measure.folders.run_folder import chosen_images, measure_run
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.profile.values import read_values
from nearsight.models.load.registry import create_model
from nearsight.native import status
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol
from nearsight.runs.examples import Examples, read_examples_contents

NUM_IMAGES = 23


def test_images_are_chosen_by_their_number_alone():
    few, many = chosen_images(10000), chosen_images(10000, 7000)
    assert len(few) == 5000
    assert set(few) <= set(many)
    assert (np.diff(few) > 0).all()
    assert len(chosen_images(31)) == 31


@pytest.mark.parametrize("number", [-1, 0, 1, 32])
def test_a_number_of_images_that_is_not_there_is_refused(number):
    with pytest.raises(UserError, match=r"--num-images is .*\b2 and 31\b"):
        chosen_images(31, number)


def dataset(name="shapes", seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (NUM_IMAGES, 3, 12, 20), dtype=np.uint8)
    split = ImageSet(pixels, np.zeros(NUM_IMAGES, np.int64), None)
    return Dataset(
        name=name, classes=tuple("abcdefg"), train=split, test=split, mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.3, 0.25), hash=f"{seed:016d}", origin="generated",
    )  # fmt: skip


def write_mu_run(folder, monkeypatch):
    """A finished run of mu on 23 test images of 12x20 pixels, 3x5 patches."""
    protocol = Protocol(
        name="baseline", epochs=2, patience=None, warmup_epochs=0, batch_size=3,
        data=DataSettings(name="shapes"),
        model=ModelSettings(name="mu_vit", patch_size=4, num_registers=1),
    )  # fmt: skip
    record = run_contents(protocol=asdict(protocol), data=DATA | {"hash": f"{0:016d}"})
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(record))
    save_file(sharp_model().state_dict(), folder / "weights.safetensors")
    monkeypatch.setattr("nearsight.measure.folders.run_folder.load_dataset", lambda *_: dataset())
    return folder


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    return write_mu_run(tmp_path, monkeypatch)


@pytest.mark.slow
def test_measuring_a_run_writes_what_the_profile_of_its_model_says(run_folder):
    told = []
    path = measure_run(run_folder, batch_size=7, progress=lambda *given: told.append(given))
    written = json.loads(path.read_text())
    pixels = torch.from_numpy(dataset().test.images).float() / 255
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)))
    expected = measure_model(sharp_model(), [(pixels - mean) / std])
    for layer in range(2):
        found = written["layers"][layer]["mad"]["mean"]
        assert found == pytest.approx(expected.mad.mean[layer].tolist(), abs=1e-6)
    assert told == [(n, 69) for n in (7, 14, 21, 23, 30, 37, 44, 46, 53, 60, 67, 69)]
    assert (written["num_images"], written["num_available"], written["split"]) == (23, 23, "test")
    assert written["grid"] == [3, 5]
    assert written["num_prefix"] == 2
    values, names = read_values(run_folder / "measure.safetensors")
    assert names[:2] == ["test/0", "test/1"]
    assert values.mad.values[1] == pytest.approx(expected.mad.values[1], abs=1e-6)
    assert written["data"] == {"name": "shapes", "hash": f"{0:016d}"}
    assert written["native"] == asdict(status())


@pytest.mark.parametrize("wrong", [{"num_images": 24}, {"metrics": ("entropie",)}], ids=str)
def test_a_refused_measurement_leaves_no_folder(run_folder, tmp_path, wrong):
    with pytest.raises(UserError):
        measure_run(run_folder, out=tmp_path / "elsewhere" / "m", **wrong)
    assert not (tmp_path / "elsewhere" / "m").exists()


def test_more_images_than_the_test_set_has_are_refused(run_folder):
    with pytest.raises(UserError, match=r"--num-images is 24\b.*\b2 and 23\b"):
        measure_run(run_folder, num_images=24)
    assert not (run_folder / "measure.json").exists()


def test_other_data_than_the_runs_are_refused(run_folder, monkeypatch):
    monkeypatch.setattr(
        "nearsight.measure.folders.run_folder.load_dataset", lambda *_: dataset(seed=1)
    )
    with pytest.raises(UserError, match=r"\bshapes\b.*\b0{16}\b.*\b0{15}1\b.*--data-root"):
        measure_run(run_folder)


def test_a_run_that_has_not_finished_is_refused(run_folder):
    record = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(UserError, match=r"/test_\w+"):
        measure_run(run_folder)


@pytest.mark.slow
def test_the_null_lines_are_the_untrained_model_and_shuffled_patches(run_folder):
    null = json.loads(measure_run(run_folder).read_text())["null"]
    torch.manual_seed(0)  # the run's seed: its weights before training
    fresh = create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=1)
    pixels = torch.from_numpy(dataset().test.images).float() / 255
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)))
    untrained = measure_model(fresh, (pixels - mean) / std)
    wanted = [values.mean() for values in untrained.mad.values]
    assert null["random_init"]["layer_mean_mad"] == pytest.approx(wanted, abs=1e-6)
    assert null["random_init"]["num_images"] == NUM_IMAGES
    trained = json.loads((run_folder / "measure.json").read_text())["summary"]["layer_mean_mad"]
    shuffled = null["shuffled_patches"]["layer_mean_mad"]
    assert shuffled != pytest.approx([layer["value"] for layer in trained], abs=1e-4)


@pytest.mark.slow
def test_null_lines_come_from_images_spread_over_the_choice(tmp_path, monkeypatch):
    """The test images of a folder are sorted by class: the first 64 would be of one class."""
    folder = write_mu_run(tmp_path, monkeypatch)
    pixels = np.random.default_rng(3).integers(0, 256, (131, 3, 12, 20), dtype=np.uint8)
    split = ImageSet(pixels, np.arange(131) // 67, None)
    sorted_by_class = replace(dataset(), test=split)
    monkeypatch.setattr(
        "nearsight.measure.folders.run_folder.load_dataset", lambda *_: sorted_by_class
    )
    null = json.loads(measure_run(folder).read_text())["null"]["random_init"]
    torch.manual_seed(0)
    fresh = create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=1)
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)))
    images = (torch.from_numpy(pixels).float() / 255 - mean) / std
    every_second, first = measure_model(fresh, images[:128:2]), measure_model(fresh, images[:64])
    wanted = [values.mean() for values in every_second.mad.values]
    assert null["num_images"] == 64
    assert null["layer_mean_mad"] == pytest.approx(wanted, abs=1e-7)
    assert wanted != pytest.approx([values.mean() for values in first.mad.values], abs=1e-6)


@pytest.mark.slow
def test_the_attention_of_four_images_spread_over_the_choice_is_kept(run_folder):
    measured = json.loads(measure_run(run_folder, batch_size=7).read_text())
    names = ["test/0", "test/5", "test/10", "test/15"]  # 23 images, every fifth
    assert measured["examples"] == {"names": names}
    kept = Examples.of_contents(read_examples_contents(run_folder))
    assert [image.name for image in kept.images] == names
    positions = [0, 5, 10, 15]
    pixels = torch.from_numpy(dataset().test.images[positions]).float() / 255
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)))
    with torch.no_grad(), ns.capture_attention(model := sharp_model()) as maps:
        model((pixels - mean) / std)
    for layer, exact in enumerate(maps):
        shown = np.stack([x.layers[layer].weights(kept.layers[layer]) for x in kept.images])
        assert (np.abs(shown - exact.numpy()) <= exact.amax(-1, keepdim=True).numpy() / 255).all()
    for image, position in zip(kept.images, positions, strict=True):
        content = base64.b64decode(image.source.partition(",")[2])
        picture = np.asarray(Image.open(io.BytesIO(content)))
        assert (picture == dataset().test.images[position].transpose(1, 2, 0)).all()


@pytest.mark.slow
def test_a_model_with_too_many_weights_keeps_no_examples_and_says_why(run_folder, monkeypatch):
    measure_run(run_folder)
    monkeypatch.setattr("nearsight.measure.readouts.example_capture.MAX_WEIGHTS", 17)
    measured = json.loads(measure_run(run_folder).read_text())
    assert measured["examples"]["names"] == []
    assert "more than 17 attention weights" in measured["examples"]["problem"]
    assert read_examples_contents(run_folder) is None
