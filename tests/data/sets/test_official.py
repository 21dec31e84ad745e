"""CIFAR and Tiny-ImageNet: the official layouts, and every way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_data import write_cifar, write_tiny_imagenet
from PIL import Image

from nearsight.core import UserError
from nearsight.data.sets.catalog import (
    check_dataset,
    data_root,
    dataset_name,
    list_datasets,
    load_dataset,
    source_of,
)
from nearsight.data.sets.sources import write_origin
from nearsight.protocol.schema import DataSettings


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_cifar10_joins_its_five_batches_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    write_cifar(folder, "cifar10", num_classes=5, num_per_file=11)
    dataset = load_dataset(DataSettings(name="cifar10"), tmp_path)
    assert dataset.train.images.shape == (55, 3, 32, 32)
    third = np.frombuffer((folder / "data_batch_3.bin").read_bytes(), np.uint8).reshape(11, 3073)
    assert np.array_equal(dataset.train.images[22:33].reshape(11, 3072), third[:, 1:])
    assert dataset.train.labels[22:33].tolist() == third[:, 0].tolist()
    assert dataset.classes == ("class0", "class1", "class2", "class3", "class4")


def test_cifar100_takes_the_fine_label(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    write_cifar(folder, "cifar100", num_classes=7, num_per_file=17)
    records = np.frombuffer((folder / "test.bin").read_bytes(), np.uint8).reshape(17, 3074)
    dataset = load_dataset(DataSettings(name="cifar100"), tmp_path)
    assert dataset.test.labels.tolist() == records[:, 1].tolist()
    assert dataset.test.labels.tolist() != records[:, 0].tolist()


@pytest.mark.parametrize("cut", [1, 3073, 17 * 3074])
def test_a_cut_off_file_is_refused_by_name(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "cifar-100-binary"
    write_cifar(folder, "cifar100", num_classes=7, num_per_file=17)
    path = folder / "test.bin"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UserError, match=r"/test\.bin .*\b\d+ bytes\b.*\b3074\b"):
        load_dataset(DataSettings(name="cifar100"), tmp_path)


def test_a_label_out_of_range_is_refused_by_file_and_record(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    write_cifar(folder, "cifar100", num_classes=7, num_per_file=17)
    content = bytearray((folder / "train.bin").read_bytes())
    content[13 * 3074 + 1] = 7
    (folder / "train.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"/train\.bin\b(?=.*\b13\b).*\b7\b.*\b0 to 6\b"):
        load_dataset(DataSettings(name="cifar100"), tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_cifar(tmp_path / "cifar-100-binary", "cifar100", num_classes=7, num_per_file=17)
    (tmp_path / "cifar-100-binary" / "test.bin").unlink()
    with pytest.raises(UserError, match=r"lacks test\.bin"):
        load_dataset(DataSettings(name="cifar100"), tmp_path)


def test_a_missing_data_set_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nearsight data fetch cifar100.*--data-root"):
        load_dataset(DataSettings(name="cifar100"), tmp_path)


def test_an_unknown_name_gives_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'CIFAR-100'.*\bcifar100\b"):
        load_dataset(DataSettings(name="CIFAR-100"), tmp_path)
    with pytest.raises(UserError, match=r"'shape'.*\bshapes\b"):
        dataset_name("shape")


def test_images_of_a_set_are_enlarged_and_never_made_smaller(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\b16\b.*\bcifar10\b.*\b32 x 32\b.*model\.image_size"):
        load_dataset(DataSettings(name="cifar10", image_size=16), tmp_path)


def test_data_root_is_the_given_then_the_environment_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARSIGHT_DATA", "/somewhere")
    assert data_root(tmp_path) == tmp_path
    assert data_root() == Path("/somewhere")
    monkeypatch.delenv("NEARSIGHT_DATA")
    assert data_root() == tmp_path / "home" / ".cache" / "nearsight" / "data"


def test_tiny_imagenet_reads_its_annotations_and_grey_images(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-imagenet-200"
    write_tiny_imagenet(folder)
    dataset = load_dataset(DataSettings(name="tiny-imagenet"), tmp_path)
    assert dataset.classes == ("n01", "n02", "n03")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.test.labels.tolist() == [1, 2, 0, 1]
    grey = dataset.test.images[1]
    assert np.array_equal(grey[0], grey[1])
    assert np.array_equal(grey[0], np.asarray(Image.open(folder / "val" / "images" / "val_1.JPEG")))
    first = np.asarray(Image.open(folder / "train" / "n01" / "images" / "n01_0.JPEG"))
    assert np.array_equal(dataset.train.images[0], first.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("annotation", r"\bline 4\b.*\btrain/.*'val_3\.JPEG"),
        ("image", r"\bline 3\b.*/val_2\.JPEG\b"),
        ("class", r"/n02/images .*\.JPEG\b"),
        ("train", r"\btrain/ .*val_annotations\.txt"),
        ("empty", r"/val_annotations\.txt\b"),
        ("corrupt", r"\b1 of 10 images\b.*\bval/images/val_2\.JPEG"),
        ("size", r"/val_2\.JPEG .*\b48 x 64\b.*\b64 x 64\b"),
    ],
)
def test_what_is_wrong_in_tiny_imagenet_is_named(tmp_path: Path, damage: str, message: str) -> None:
    folder = tmp_path / "tiny-imagenet-200"
    write_tiny_imagenet(folder)
    annotations = folder / "val" / "val_annotations.txt"
    image = folder / "val" / "images" / "val_2.JPEG"
    if damage == "annotation":
        annotations.write_text(
            annotations.read_text().replace("val_3.JPEG\tn02", "val_3.JPEG\tn09")
        )
    elif damage == "image":
        image.unlink()
    elif damage == "class":
        for path in (folder / "train" / "n02" / "images").iterdir():
            path.unlink()
    elif damage == "train":
        (folder / "train").rename(folder / "other")
    elif damage == "empty":
        annotations.write_text("")
    elif damage == "corrupt":
        image.write_bytes(image.read_bytes()[:300])
    else:
        Image.new("RGB", (48, 64)).save(image)
    with pytest.raises(UserError, match=message):
        load_dataset(DataSettings(name="tiny-imagenet"), tmp_path)


def test_a_folder_is_official_only_while_its_files_are_those_of_the_archive(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    write_cifar(folder, "cifar100", num_classes=7, num_per_file=17)
    assert check_dataset("cifar100", tmp_path).verdict == "not the official bytes"
    write_origin(folder, source_of("cifar100"))
    assert check_dataset("cifar100", tmp_path).verdict == "official"
    assert load_dataset(DataSettings(name="cifar100"), tmp_path).origin == "official"
    content = bytearray((folder / "test.bin").read_bytes())
    content[50] ^= 1
    (folder / "test.bin").write_bytes(content)
    report = check_dataset("cifar100", tmp_path)
    assert report.verdict == "not the official bytes"
    assert (report.num_train, report.num_test, report.num_classes) == (17, 17, 7)


def test_the_list_says_what_is_there(tmp_path: Path) -> None:
    write_cifar(tmp_path / "cifar-100-binary", "cifar100", num_classes=7, num_per_file=17)
    states = {row.name: row.state for row in list_datasets(tmp_path)}
    assert states == {
        "cifar10": "missing",
        "cifar100": "ready",
        "tiny-imagenet": "missing",
        "shapes": "built in",
    }


@pytest.mark.slow
def test_the_real_cifar100_has_the_known_statistics(real_data: Path) -> None:
    if not (real_data / "cifar-100-binary").is_dir():
        pytest.skip("no cifar-100-binary in NEARSIGHT_DATA")
    dataset = load_dataset(DataSettings(name="cifar100"), real_data)
    assert [round(value, 4) for value in dataset.mean] == [0.5071, 0.4865, 0.4409]
    assert [round(value, 4) for value in dataset.std] == [0.2673, 0.2564, 0.2762]
    assert np.bincount(dataset.train.labels).tolist() == [500] * 100
    assert dataset.classes[0] == "apple"
    assert dataset.classes[-1] == "worm"


@pytest.mark.slow
def test_the_real_tiny_imagenet_has_balanced_classes(real_data: Path) -> None:
    if not (real_data / "tiny-imagenet-200").is_dir():
        pytest.skip("no tiny-imagenet-200 in NEARSIGHT_DATA")
    dataset = load_dataset(DataSettings(name="tiny-imagenet"), real_data)
    assert dataset.train.images.shape[1:] == (3, 64, 64)
    assert set(np.bincount(dataset.train.labels)) == {500}
    assert set(np.bincount(dataset.test.labels)) == {50}
