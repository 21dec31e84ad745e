"""The views of DINO: each is its own augmentation, and the number of processes changes none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nearsight.core import UserError
from nearsight.core.processes import World
from nearsight.data.augment.pipeline import augment_images, normalise_pixels
from nearsight.models.load.registry import model_for
from nearsight.protocol.overrides import override
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import ModelSettings, Protocol
from nearsight.train.batches import epoch_order
from nearsight.train.objectives.projection import embed_images
from nearsight.train.objectives.views import view_batches
from nearsight.train.preparation import prepare

CPU = torch.device("cpu")


@pytest.fixture
def labelless(small: Protocol) -> Protocol:
    protocol = preset("dino", small.data.name, "mu_vit")
    changes = ["model.image_size=null", "batch_size=29", "dino.num_local=3", "dino.outputs=31"]
    return replace(override(protocol, changes), data=small.data)


def test_a_view_is_the_augmentation_of_its_image_with_its_own_number(
    labelless: Protocol, tmp_path: Path
):
    parts = prepare(labelless, 5, World(CPU), tmp_path, False, "ddp")
    given, settings = parts.setting, labelless.dino
    assert settings is not None
    batches = list(view_batches(given, settings, 6, 2, 0))
    assert sum(x.global_size for x in batches) == len(given.train.indices) == 99
    batch = batches[3]  # 12 images are left
    samples = epoch_order(given.train.indices, 1, 5, 2)[0][87:]
    kinds = [(settings.first, 16), (settings.second, 16), *[(settings.local, 6)] * 3]
    found = [*batch.whole.split(12), *batch.local.split(12)]
    for number, ((view, side), views) in enumerate(zip(kinds, found, strict=True)):
        protocol = replace(
            labelless, resized_crop=view.crop, blur=view.blur, solarize=view.solarize
        )
        for i, sample in enumerate(samples):
            one = augment_images(
                torch.from_numpy(given.train.images[[int(sample)]]), sample[None],
                torch.tensor([number]), protocol=protocol, seed=5, epoch=2,
                mean_colour=given.transform.mean, size=(side, side),
            )  # fmt: skip
            expected = normalise_pixels(one, given.transform.mean, given.transform.std)[0]
            assert torch.equal(views[i], expected)
    assert not torch.equal(found[2], found[3])


def test_two_processes_have_the_views_of_one(labelless: Protocol, tmp_path: Path):
    parts = prepare(labelless, 0, World(CPU), tmp_path, False, "ddp")
    settings = labelless.dino
    assert settings is not None
    whole = list(view_batches(parts.setting, settings, 6, 1, 2))
    halves = [
        list(view_batches(replace(parts.setting, world=World(CPU, rank, 2)), settings, 6, 1, 2))
        for rank in (0, 1)
    ]
    for one, *both in zip(whole, *halves, strict=True):
        for name, num in (("whole", 2), ("local", 3)):
            parted = [getattr(x, name).unflatten(0, (num, -1)) for x in both]
            assert torch.equal(getattr(one, name), torch.cat(parted, 1).flatten(0, 1))
        assert {x.global_size for x in both} == {one.global_size}


@pytest.mark.parametrize("name", ["mu_locat", "mu_convit", "test_vit"])
def test_at_another_size_positions_are_resampled_and_the_own_size_is_unchanged(name: str):
    settings = ModelSettings(name=name, image_size=32)
    models = []
    for any_size in (False, True):
        torch.manual_seed(0)
        models.append(model_for(settings, 7, (32, 32), any_size)[0].eval())
    plain, free = models
    images, small = torch.randn(2, 3, 32, 32), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        expected = embed_images(plain, images)
        torch.testing.assert_close(embed_images(free, images), expected, atol=1e-6, rtol=0)
        local = embed_images(free, small)
        torch.testing.assert_close(embed_images(free, images), expected, atol=1e-6, rtol=0)
    assert local.shape == expected.shape
    assert local.std() > 0
    if name != "test_vit":  # which timm builds for any size
        with pytest.raises(UserError, match=r"16x16 pixels.*32x32"):
            embed_images(plain, small)


def test_gaugs_variance_is_scaled_on_the_grid_of_a_local_view():
    settings = ModelSettings(name="mu_locat", image_size=32)
    model, _ = model_for(settings, 7, (32, 32), any_size=True)
    seen = []
    layer = model.get_submodule("blocks.0.attn.gaug")
    original = layer.growth
    layer.growth = lambda grid: seen.append((grid, original(grid))) or seen[-1][1]
    model(torch.randn(1, 3, 16, 12))
    ((grid, growth),) = seen
    assert (grid.rows, grid.cols, growth) == (4, 3, 3 / 8)
