"""Image folders: the three layouts, one size, and files that are no images."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from made_data import write_image, write_tiny_imagenet
from PIL import Image, UnidentifiedImageError

from nearsight.core import UserError
from nearsight.data.sets import image_folder, pixels
from nearsight.data.sets.catalog import check_dataset, dataset_name, load_dataset
from nearsight.data.sets.dataset import Dataset
from nearsight.data.sets.pixels import read_pixels
from nearsight.protocol.schema import DataSettings


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write_folder(folder: Path, test: str = "test") -> None:
    for split, number in (("train", 5), (test, 3)):
        for name in ("cat", "ant"):
            for index in range(number):
                write_image(folder / split / name / f"{index}.png", seed=index + 7 * len(split))


def load(folder: Path, root: Path, **settings: object) -> Dataset:
    return load_dataset(DataSettings(name=f"folder:{folder}", **settings), root)


@pytest.mark.parametrize("test", ["test", "val"])
def test_labels_are_indices_into_the_sorted_class_folders(tmp_path: Path, test: str) -> None:
    write_folder(tmp_path / "set", test)
    dataset = load(tmp_path / "set", tmp_path)
    assert dataset.classes == ("ant", "cat")
    assert dataset.train.labels.tolist() == [0] * 5 + [1] * 5
    assert dataset.test.labels.tolist() == [0] * 3 + [1] * 3
    assert dataset.train.images.shape == (10, 3, 11, 13)
    expected = np.asarray(Image.open(tmp_path / "set" / "train" / "cat" / "2.png"))
    assert np.array_equal(dataset.train.images[7], expected.transpose(2, 0, 1))
    assert dataset.origin == "folder"
    assert dataset.name == f"folder:{tmp_path / 'set'}"


def test_without_a_test_folder_a_stratified_fifth_is_held_out_and_said(tmp_path: Path) -> None:
    for name, number in (("ant", 10), ("cat", 15)):
        for index in range(number):
            write_image(tmp_path / "set" / name / f"{index:02}.png", seed=index)
    dataset = load(tmp_path / "set", tmp_path)
    assert np.bincount(dataset.train.labels).tolist() == [8, 12]
    assert np.bincount(dataset.test.labels).tolist() == [2, 3]
    assert "5 of 25 images" in dataset.notes[0]


def test_a_test_class_without_training_images_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    write_image(tmp_path / "set" / "test" / "dog" / "0.png")
    with pytest.raises(UserError, match=r"/test/dog .*/train/dog\b"):
        load(tmp_path / "set", tmp_path)


def test_a_class_may_be_missing_in_test(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    write_image(tmp_path / "set" / "train" / "bee" / "0.png")
    dataset = load(tmp_path / "set", tmp_path)
    assert dataset.classes == ("ant", "bee", "cat")
    assert dataset.test.labels.tolist() == [0] * 3 + [2] * 3


def test_other_files_are_ignored_and_counted(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    (tmp_path / "set" / "README.md").write_text("hello")
    (tmp_path / "set" / "train" / "cat" / "labels.csv").write_text("1")
    (tmp_path / "set" / "train" / "cat" / ".DS_Store").write_text("1")
    dataset = load(tmp_path / "set", tmp_path)
    assert len(dataset.train) == 10
    assert dataset.notes == ("ignored 2 files that are not images in a class folder",)


def damage(folder: Path) -> None:
    path = folder / "train" / "ant" / "3.png"
    path.write_bytes(path.read_bytes()[:200])
    (folder / "test" / "cat" / "1.png").write_bytes(b"no image")


def test_corrupt_images_are_named_and_counted(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    damage(tmp_path / "set")
    with pytest.raises(UserError, match=r"2 of 16 .*ant.3\.png .*cat.1\.png .*skip_corrupt=true"):
        load(tmp_path / "set", tmp_path)


def test_corrupt_images_are_skipped_when_told_and_said(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    damage(tmp_path / "set")
    dataset = load(tmp_path / "set", tmp_path, skip_corrupt=True)
    assert dataset.train.labels.tolist() == [0] * 4 + [1] * 5
    assert dataset.test.labels.tolist() == [0] * 3 + [1] * 2
    assert dataset.notes[0].startswith(
        "skipped 2 of 16 images that cannot be read: train/ant/3.png"
    )
    assert load(tmp_path / "set", tmp_path, skip_corrupt=True).notes == dataset.notes


def test_a_set_of_only_corrupt_images_is_refused_even_when_skipping(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    for path in (tmp_path / "set" / "test").rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(UserError, match=r"/set .*\btest\b"):
        load(tmp_path / "set", tmp_path, skip_corrupt=True)


def test_two_sizes_are_refused_unless_one_is_set(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    write_image(tmp_path / "set" / "test" / "cat" / "9.png", (17, 19))
    with pytest.raises(UserError, match=r"/9\.png .*\b17 x 19\b.*\b13 x 11\b.*data\.image_size"):
        load(tmp_path / "set", tmp_path)
    dataset = load(tmp_path / "set", tmp_path, image_size=7)
    assert dataset.test.images.shape == (7, 3, 7, 7)


def test_resizing_keeps_the_middle_square(tmp_path: Path) -> None:
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, 4:8] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (read_pixels(tmp_path / "wide.png", 2) == 200).all()


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("image.tif" if mode == "CMYK" else "image.png")
    write_image(path, (5, 3), mode)
    with Image.open(path) as image:
        expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(read_pixels(path), expected)


def test_sixteen_bits_keep_their_upper_eight(tmp_path: Path) -> None:
    values = np.array([[0, 255, 256], [32768, 65535, 513]], np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert read_pixels(tmp_path / "deep.png")[1].tolist() == [[0, 0, 1], [128, 255, 2]]


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([], r"/set .*\bclass"),
        (["train/cat"], r"\btrain/ .*\btest/ .*\bval/"),
        (["train/cat", "test/cat"], r"/cat .*\.png\b"),
        (["cat", "ant"], r"/ant .*\.png\b"),
    ],
)
def test_an_empty_folder_is_refused(tmp_path: Path, folders: list[str], message: str) -> None:
    for folder in ["", *folders]:
        (tmp_path / "set" / folder).mkdir(parents=True, exist_ok=True)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "set", tmp_path)


def test_one_class_is_refused(tmp_path: Path) -> None:
    for index in range(5):
        write_image(tmp_path / "set" / "cat" / f"{index}.png")
    with pytest.raises(UserError, match=r"/set .*'cat'"):
        load(tmp_path / "set", tmp_path)


def test_tiny_imagenet_as_a_folder_is_refused_with_the_right_command(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    with pytest.raises(UserError, match="--data tiny-imagenet --data-root"):
        load(tmp_path / "tiny-imagenet-200", tmp_path)


def test_a_path_is_the_name_of_an_image_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert dataset_name("mine") == f"folder:{tmp_path / 'mine'}"
    assert dataset_name("./mine") == f"folder:{tmp_path / 'mine'}"
    with pytest.raises(UserError, match=r"/other\b"):
        load(tmp_path / "other", tmp_path)


def test_a_format_that_starts_a_program_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    ran = tmp_path / "ran"
    (tools / "gs").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (tools / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    Image.new("RGB", (5, 3)).save(tmp_path / "image.eps")
    disguised = (tmp_path / "image.eps").rename(tmp_path / "image.png")
    with pytest.raises(UnidentifiedImageError):
        read_pixels(disguised)
    assert not ran.exists()


def test_pixels_of_an_unknown_scale_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.0, 0.5]], np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.array([[0, 200]], np.uint16)).save(tmp_path / "dark.png")
    Image.fromarray(np.array([[0, 70000]], np.int32)).save(tmp_path / "deep.tif")
    for name, found in (("float.tif", "floating"), ("dark.png", "0 to 200"), ("deep.tif", "70000")):
        with pytest.raises(UserError, match=found):
            read_pixels(tmp_path / name)


def test_a_turned_photograph_is_upright(tmp_path: Path) -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn clockwise by 90 degrees
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    expected = np.rot90(pixels, -1).transpose(2, 0, 1)
    assert np.array_equal(read_pixels(tmp_path / "turned.png"), expected)


@pytest.mark.parametrize("problem", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_an_error_of_the_machine_is_no_damage_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    write_folder(tmp_path / "set")
    real = pixels.read_pixels

    def read(path: Path, size: int | None) -> np.ndarray:
        if path.name == "2.png":
            raise problem
        return real(path, size)

    monkeypatch.setattr(pixels, "read_pixels", read)
    with pytest.raises(type(problem)):
        load(tmp_path / "set", tmp_path, skip_corrupt=True)
    monkeypatch.setattr(pixels, "read_pixels", real)
    assert len(load(tmp_path / "set", tmp_path, skip_corrupt=True).train) == 10


def test_files_rewritten_with_their_old_times_are_read_again(tmp_path: Path) -> None:
    write_folder(tmp_path / "set")
    for path in (tmp_path / "set").rglob("*.png"):  # no compression: equally many bytes
        with Image.open(path) as image:
            image.save(path.with_suffix(".bmp"))
        path.unlink()
    before = load(tmp_path / "set", tmp_path)
    path = tmp_path / "set" / "train" / "cat" / "1.bmp"
    state = path.stat()
    with Image.open(path) as image:
        inverted = 255 - np.asarray(image)
    Image.fromarray(inverted).save(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    assert np.array_equal(
        load(tmp_path / "set", tmp_path).train.images[6].transpose(1, 2, 0), inverted
    )
    assert not np.array_equal(before.train.images[6].transpose(1, 2, 0), inverted)


def test_a_check_reads_the_files_and_not_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "set")
    name = f"folder:{tmp_path / 'set'}"
    before = check_dataset(name, tmp_path)
    monkeypatch.setattr(image_folder, "files_key", lambda *_: "as before")
    unchanged = check_dataset(name, tmp_path)
    write_image(tmp_path / "set" / "train" / "cat" / "1.png", seed=99)
    assert before.hash == unchanged.hash != check_dataset(name, tmp_path).hash
