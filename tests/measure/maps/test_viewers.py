"""One image in several models: each with its own weights, pixels and grid."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import write_image
from PIL import Image
from runs.made_records import DATA, model_contents, run_contents
from safetensors.torch import save_file

from nearsight.core import UserError
from nearsight.data.input.pictures import chosen_pictures, find_pictures
from nearsight.measure.maps.image_maps import attention_maps
from nearsight.measure.maps.viewers import target_maps
from nearsight.models.load.registry import create_model
from nearsight.protocol.schema import DataSettings, ModelSettings, Protocol


@pytest.fixture
def picture(tmp_path):
    write_image(tmp_path / "a.png", (67, 41))
    return tmp_path / "a.png"


def sharp(name, seed, **options):
    """Weights that are large enough for maps that differ."""
    torch.manual_seed(seed)
    model = create_model(name, **options)
    model.load_state_dict({key: 7 * x for key, x in model.state_dict().items()})
    return model


@pytest.fixture
def run_folder(tmp_path):
    """A run of mu on images of 12x20 pixels."""
    protocol = Protocol(
        name="baseline", epochs=2, patience=None, warmup_epochs=0, batch_size=3,
        data=DataSettings(name="shapes"), model=ModelSettings(name="mu_vit", patch_size=4),
    )  # fmt: skip
    data = DATA | {"mean": [0.5, 0.4, 0.3], "std": [0.2] * 3}  # 12x20 pixels
    record = run_contents(protocol=asdict(protocol), seed=3, data=data)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record))
    model = sharp("mu", 5, num_classes=7, image_size=(12, 20), patch_size=4)
    save_file(model.state_dict(), folder / "weights.safetensors")
    return folder, model


def test_a_run_is_given_the_middle_of_the_image_in_its_own_size(run_folder, picture):
    folder, model = run_folder
    (found,) = target_maps([str(folder)], picture, [(2, 4)])
    image = Image.open(picture).convert("RGB")  # 67 x 41 pixels, nearly the shape of 20 x 12
    assert found.name == "baseline, mu_vit, seed 3"
    np.testing.assert_array_equal(found.pixels, image.resize((20, 12), Image.Resampling.BICUBIC))
    normal = (torch.from_numpy(found.pixels.copy()).permute(2, 0, 1) / 255).double()
    mean = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
    expected = attention_maps(model, ((normal - mean) / 0.2).float(), [(2, 4)])
    for one, two in zip(found.maps[0].of_patches, expected.of_patches):
        np.testing.assert_allclose(one.weights, two.weights, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_weights_go_to_the_models_that_need_them_in_order(run_folder, picture, tmp_path):
    models = [sharp("mu", seed) for seed in (1, 2)]
    files = [tmp_path / f"{index}.safetensors" for index in (1, 2)]
    for model, file in zip(models, files):
        save_file(model.state_dict(), file)
    folder, _ = run_folder
    targets = ["mu", str(folder), "mu", "mu"]
    found = target_maps(targets, picture, layer=0, weights=files, random_init=True)
    names = ["mu, 1.safetensors", "baseline, mu_vit, seed 3", "mu, 2.safetensors"]
    assert [x.name for x in found] == [*names, "mu, random initialisation"]
    for index, model in ((0, models[0]), (2, models[1])):
        pixels = torch.from_numpy(found[index].pixels.copy()).permute(2, 0, 1) / 255
        mean, std = (
            torch.tensor(x).view(3, 1, 1) for x in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        )
        expected = attention_maps(model, (pixels - mean) / std, layer=0)
        np.testing.assert_allclose(
            found[index].maps[0].of_class.weights, expected.of_class.weights, rtol=1e-3, atol=1e-6
        )
    first, second = (found[index].maps[0].of_class.weights for index in (0, 2))
    assert abs(first - second).max() > 0.01


@pytest.mark.slow
def test_in_another_grid_the_patch_at_the_same_place_is_taken(run_folder, picture):
    folder, _ = run_folder
    ours, run = target_maps(["mu", str(folder)], picture, [(0, 7), (4, 3)], random_init=True)
    assert (str(ours.maps[0].grid), str(run.maps[0].grid)) == ("8x8", "3x5")
    assert run.maps[0].patches == ((0, 4), (1, 2))


@pytest.mark.slow
def test_every_head_is_seen_from_the_middle(run_folder, picture):
    folder, _ = run_folder
    (found,) = target_maps([str(folder)], picture, layer=0, head="all")
    assert [maps.head for maps in found.maps] == [0, 1]
    assert {maps.patches for maps in found.maps} == {((1, 2),)}
    for head, maps in enumerate(found.maps):
        (alone,) = target_maps([str(folder)], picture, [(1, 2)], layer=0, head=head)
        np.testing.assert_array_equal(
            maps.of_patches[0].weights, alone.maps[0].of_patches[0].weights
        )


@pytest.mark.slow
def test_a_folder_is_averaged_over_as_many_images_as_asked_for(run_folder, tmp_path):
    folder, model = run_folder
    pictures = tmp_path / "many"
    pictures.mkdir()
    for number in range(11):
        write_image(pictures / f"{number:02d}.png", (20, 12), seed=number)
    (found,) = target_maps([str(folder)], None, [(2, 4)], images=pictures, num_images=9)
    names, _ = find_pictures(pictures)
    chosen = chosen_pictures(names, 9, pictures)
    pixels = np.stack([np.asarray(Image.open(pictures / name)) for name in chosen])
    np.testing.assert_array_equal(found.pixels, np.rint(pixels.mean(0)).astype(np.uint8))
    mean = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
    normal = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - mean) / 0.2
    expected = attention_maps(model, normal.float(), [(2, 4)])
    assert found.maps[0].num_images == 9
    np.testing.assert_allclose(
        found.maps[0].of_patches[0].weights, expected.of_patches[0].weights, rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"image_size": "16"}, r"run is a run .* leave out --image-size"),
        ({"weights": [Path("w")]}, r"--weights .*\b1\b.*\b0\b"),
    ],
)
def test_what_a_run_has_of_its_own_cannot_be_given(options, sentence, run_folder, picture):
    with pytest.raises(UserError, match=sentence):
        target_maps([str(run_folder[0])], picture, **options)


def test_a_measured_model_is_no_target(run_folder, picture):
    folder, _ = run_folder
    (folder / "run.json").write_text(json.dumps(model_contents("vit_x")))
    with pytest.raises(UserError, match=r"/run .*\bvit_x\b"):
        target_maps([str(folder)], picture)
