"""The profile of a model and the measure.json of a run."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from measure import reference_attention as slow
from safetensors.torch import save_file

from nearsight.data.dataset import Dataset, ImageSet
from nearsight.measure.capture import AttentionCapture
from nearsight.measure.profile import attention_profile, chosen_images, measure_run
from nearsight.measure.summary import measurement, null_lines
from nearsight.models.grid import Grid
from nearsight.models.registry import create_model
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol

GRID, NUM_IMAGES = Grid(3, 5), 23


def sharp_model():
    torch.manual_seed(3)
    model = create_model("mu", 7, image_size=(12, 20), patch_size=4, num_registers=1).eval()
    for block in model.blocks:
        torch.nn.init.normal_(block.attn.qkv.weight, std=0.4)
    return model


def images(count=NUM_IMAGES):
    return torch.randn(count, 3, 12, 20, generator=torch.Generator().manual_seed(2))


def test_a_profile_equals_plain_loops_over_captured_attention():
    model, profile = sharp_model(), attention_profile(sharp_model(), images().split(7))
    captured = []
    with torch.no_grad(), AttentionCapture(lambda call: captured.append(call.weights())):
        model(images())
    for layer, attention in enumerate(captured):
        for image in (0, 11, 22):
            for head in range(2):
                rows = slow.patch_rows(attention[image, head].tolist(), 2)
                found = [x[layer][image, head].item() for x in (profile.mad, profile.entropy)]
                wanted = [slow.distance(rows, 3, 5), slow.entropy(rows)]
                assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 5, 23])
def test_the_batch_size_changes_nothing(batch_size):
    model = sharp_model()
    one, other = (attention_profile(model, images().split(size)) for size in (7, batch_size))
    for metric in ("mad", "entropy", "self_mass"):
        for mine, yours in zip(getattr(one, metric), getattr(other, metric), strict=True):
            assert torch.allclose(mine, yours, atol=1e-6)


def test_the_order_of_the_images_changes_no_mean():
    model = sharp_model()
    forward = measurement(attention_profile(model, images().split(5)))
    backward = measurement(attention_profile(model, images().flip(0).split(5)))
    for one, other in zip(forward["layers"], backward["layers"], strict=True):
        for metric in ("mad", "entropy", "self_mass"):
            for part in ("mean", "low", "high", "sd"):
                assert one[metric][part] == pytest.approx(other[metric][part], abs=1e-6)


def test_the_summary_is_made_of_the_profile():
    profile = attention_profile(sharp_model(), images().split(5))
    found = measurement(profile)
    heads = torch.cat([layer.mean(0) for layer in profile.mad]).tolist()
    smallest = found["summary"]["min_mad"]
    assert smallest["value"] == pytest.approx(min(heads), abs=1e-15)
    assert 2 * (smallest["layer"] - 1) + smallest["head"] - 1 == heads.index(min(heads))
    assert smallest["low"] < smallest["value"] < smallest["high"]
    assert found["summary"]["max_mad"]["value"] == pytest.approx(max(heads), abs=1e-15)
    assert found["summary"]["mean_mad"]["value"] == pytest.approx(sum(heads) / 4, abs=1e-15)
    assert found["summary"]["layer_mean_mad"][1]["value"] == pytest.approx(sum(heads[2:]) / 2)
    box = found["null"]["box_mad"]
    assert found["summary"]["heads_below_box"] == sum(head < box for head in heads)
    assert found["num_heads"] == [2, 2]


def test_a_head_that_looks_at_itself_counts_as_below_the_box():
    profile = attention_profile(sharp_model(), [images()])
    closer = replace(profile, mad=(profile.mad[0] * torch.tensor([0.01, 1.0]), profile.mad[1]))
    before, after = (measurement(x)["summary"]["heads_below_box"] for x in (profile, closer))
    assert after == before + 1


def test_null_lines_are_those_of_the_grid():
    lines = null_lines(Grid(8, 8))
    assert lines["uniform_mad"] == pytest.approx(0.4178, abs=5e-5)
    assert lines["box_mad"] == pytest.approx(0.1032, abs=5e-5)
    assert null_lines(GRID)["box_mad"] == pytest.approx(GRID.box_distance(), abs=1e-14)
    # 3x5: 4 corners with 4 neighbours in the box, 8 edges with 6, 3 inner patches with 9
    shares = [1 / 4] * 4 + [1 / 6] * 8 + [1 / 9] * 3
    assert null_lines(GRID)["box_self_mass"] == pytest.approx(sum(shares) / 15, abs=1e-14)
    entropies = -sum(np.log(shares)) / 15 / np.log(15)
    assert null_lines(GRID)["box_entropy"] == pytest.approx(entropies, abs=1e-10)


def test_images_are_chosen_by_their_number_alone():
    few, many = chosen_images(10000), chosen_images(10000, 7000)
    assert len(few) == 5000
    assert set(few) <= set(many)
    assert (np.diff(few) > 0).all()
    assert len(chosen_images(31)) == 31


@pytest.mark.parametrize("number", [-1, 0, 1, 32])
def test_a_number_of_images_that_is_not_there_is_refused(number):
    with pytest.raises(ValueError, match="between 2 and 31 images"):
        chosen_images(31, number)


def dataset(name="shapes", seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (NUM_IMAGES, 3, 12, 20), dtype=np.uint8)
    split = ImageSet(pixels, np.zeros(NUM_IMAGES, np.int64), None)
    return Dataset(
        name=name, classes=tuple("abcdefg"), train=split, test=split, mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.3, 0.25), hash=f"{seed:016d}", origin="generated",
    )  # fmt: skip


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    """A finished run of mu on 23 test images of 12x20 pixels."""
    protocol = Protocol(
        name="baseline", epochs=2, patience=None, warmup_epochs=0, batch_size=3,
        data=DataSettings(name="shapes"),
        model=ModelSettings(name="mu_vit", patch_size=4, num_registers=1),
    )  # fmt: skip
    data = {"name": "shapes", "hash": f"{0:016d}", "num_classes": 7, "image_size": [12, 20]}
    data |= {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.25]}
    record = {"schema_version": 1, "protocol": asdict(protocol), "seed": 0, "data": data}
    record["model"] = {"name": "mu_vit", "num_classes": 7}
    (tmp_path / "run.json").write_text(json.dumps(record | {"status": "finished"}))
    save_file(sharp_model().state_dict(), tmp_path / "weights.safetensors")
    monkeypatch.setattr("nearsight.data.catalog.load_dataset", lambda *_: dataset())
    return tmp_path


def test_measuring_a_run_writes_what_the_profile_of_its_model_says(run_folder):
    told = []
    path = measure_run(run_folder, batch_size=7, progress=lambda *given: told.append(given))
    written = json.loads(path.read_text())
    pixels = torch.from_numpy(dataset().test.images).float() / 255
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)))
    expected = attention_profile(sharp_model(), [(pixels - mean) / std])
    for layer in range(2):
        found = written["layers"][layer]["mad"]["mean"]
        assert found == pytest.approx(expected.mad[layer].mean(0).tolist(), abs=1e-6)
    assert told == [(7, 23), (14, 23), (21, 23), (23, 23)]
    assert (written["num_images"], written["num_available"], written["split"]) == (23, 23, "test")
    assert written["grid"] == [3, 5]
    assert written["num_prefix"] == 2
    assert written["data"] == {"name": "shapes", "hash": f"{0:016d}"}


def test_more_images_than_the_test_set_has_are_refused(run_folder):
    with pytest.raises(ValueError, match="between 2 and 23 images"):
        measure_run(run_folder, num_images=24)
    assert not (run_folder / "measure.json").exists()


def test_other_data_than_the_runs_are_refused(run_folder, monkeypatch):
    monkeypatch.setattr("nearsight.data.catalog.load_dataset", lambda *_: dataset(seed=1))
    with pytest.raises(ValueError, match="expected the data this run was trained on"):
        measure_run(run_folder)


def test_a_run_that_has_not_finished_is_refused(run_folder):
    record = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(ValueError, match="has not finished"):
        measure_run(run_folder)
