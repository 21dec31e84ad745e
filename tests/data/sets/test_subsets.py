"""The first classes of a set, and images that are read from their files without a decoded copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import write_coloured_folder

from nearsight.core import UserError, World
from nearsight.data.input import InputTransform
from nearsight.data.sets import load_dataset
from nearsight.data.sets.image_files import ImageFiles
from nearsight.protocol import DataSettings, preset
from nearsight.train.batches import Samples, epoch_batches


@pytest.fixture
def folder(tmp_path: Path) -> str:
    write_coloured_folder(tmp_path / "images")
    return f"folder:{tmp_path / 'images'}"


def test_the_first_classes_of_a_folder_are_those_of_the_whole(folder: str, tmp_path: Path):
    whole = load_dataset(DataSettings(name=folder, image_size=16), tmp_path)
    two = load_dataset(DataSettings(name=folder, image_size=16, classes=2), tmp_path)
    rows = np.flatnonzero(whole.train.labels < 2)
    assert two.classes == whole.classes[:2]
    assert np.array_equal(two.train.images, whole.train.images[rows])
    assert np.array_equal(two.test.labels, whole.test.labels[whole.test.labels < 2])
    assert two.hash != whole.hash


@pytest.mark.slow
def test_the_first_classes_of_a_named_set_have_their_own_statistics(tmp_path: Path):
    whole = load_dataset("shapes", tmp_path)
    two = load_dataset(DataSettings(name="shapes", classes=2), tmp_path)
    rows = np.flatnonzero(whole.train.labels < 2)
    assert (two.classes, len(two.train)) == (whole.classes[:2], len(rows))
    assert np.array_equal(two.train.images, whole.train.images[rows])
    pixels = whole.train.images[rows] / 255
    assert two.mean == pytest.approx(pixels.mean((0, 2, 3)), abs=1e-9)
    assert two.std == pytest.approx(pixels.std((0, 2, 3)), abs=1e-9)
    with pytest.raises(UserError, match=r"data\.classes is 999\b.*\bshapes\b.*\b12 classes"):
        load_dataset(DataSettings(name="shapes", classes=999), tmp_path)


def test_images_read_from_their_files_have_the_bytes_of_the_decoded_ones(
    folder: str, tmp_path: Path
):
    decoded = load_dataset(DataSettings(name=folder, image_size=16, decoded=True), tmp_path)
    lazy = load_dataset(DataSettings(name=folder, image_size=16, decoded=False), tmp_path / "none")
    assert isinstance(lazy.train.images, ImageFiles)
    assert not (tmp_path / "none").exists()  # nothing was written
    assert lazy.train.images.shape == decoded.train.images.shape
    rows = np.array([7, 3, 3, 11])
    assert np.array_equal(lazy.train.images[rows], decoded.train.images[rows])
    assert np.array_equal(lazy.test.images[2:5], decoded.test.images[2:5])
    assert np.array_equal(lazy.train.images[5], decoded.train.images[5])
    assert np.array_equal(lazy.train.labels, decoded.train.labels)


@pytest.mark.slow
def test_an_epoch_read_from_files_has_the_same_draws(folder: str, tmp_path: Path):
    protocol = replace(preset("deit", folder), batch_size=29)
    protocol = replace(protocol, data=DataSettings(name=folder, image_size=16))
    transform = InputTransform((0.5,) * 3, (0.25,) * 3, (16, 16))
    found = []
    for keep in (True, False):
        settings = replace(protocol.data, decoded=keep)
        train = load_dataset(settings, tmp_path).train
        labels = torch.from_numpy(np.array(train.labels))
        samples = Samples(train.images, labels, torch.arange(len(labels)), 3)
        found.append(
            list(
                epoch_batches(
                    samples, transform, protocol=protocol, seed=3, epoch=2, first_step=1,
                    world=World(torch.device("cpu")),
                )
            )
        )  # fmt: skip
    assert len(found[0]) == len(found[1]) > 1
    for one, other in zip(*found, strict=True):
        assert one.images.equal(other.images)
        assert one.targets.equal(other.targets)


def test_a_damaged_file_is_named_when_it_is_read(folder: str, tmp_path: Path):
    lazy = load_dataset(DataSettings(name=folder, image_size=16, decoded=False), tmp_path)
    lazy.train.images.paths[4].write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"/class0/12\.png\b"):
        lazy.train.images[np.array([4])]


def test_small_images_are_enlarged_before_augmentation(tmp_path: Path):
    whole = load_dataset(DataSettings(name="shapes", image_size=48), tmp_path)
    stored = whole.train.images.shape[-1]
    assert stored < 48
    protocol = replace(preset("baseline", "shapes"), crop_padding=0, flip=False, batch_size=5)
    protocol = replace(protocol, data=replace(protocol.data, image_size=48))
    labels = torch.from_numpy(np.array(whole.train.labels))
    samples = Samples(whole.train.images, labels, torch.arange(5), len(whole.classes))
    transform = InputTransform((0.5,) * 3, (0.25,) * 3, (48, 48))
    (batch,) = epoch_batches(
        samples, transform, protocol=protocol, seed=0, epoch=1, first_step=0,
        world=World(torch.device("cpu")),
    )  # fmt: skip
    assert batch.images.shape == (5, 3, 48, 48)
    with pytest.raises(
        UserError, match=r"data\.image_size\b.*\b31\b.*\bshapes\b.*\b32 x 32\b.*model\.image_size"
    ):
        load_dataset(DataSettings(name="shapes", image_size=stored - 1), tmp_path)
