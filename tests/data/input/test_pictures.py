"""A folder of pictures: what is read, in which order, and one sentence for what cannot be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import write_image
from PIL import Image

from nearsight.core import UserError
from nearsight.data.input.pictures import (
    PictureBatches,
    chosen_pictures,
    equal_size,
    find_pictures,
    pictures_hash,
)
from nearsight.data.input.preprocessing import Preprocessing

AS_THEY_ARE = Preprocessing("", None, None, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def write_pictures(folder: Path, number: int) -> list[str]:
    names = [f"{'ab'[index % 2]}/{index:03}.png" for index in range(number)]
    for index, name in enumerate(names):
        write_image(folder / name, (13, 11), seed=index)
    return sorted(names)


def test_a_nested_folder_is_read_in_order_of_names_without_what_is_no_picture(tmp_path: Path):
    for name in ("b.JPG", "a/z.webp", "a/deep/er/c.png", "a.bmp", ".hidden/x.png", "a/.y.png"):
        write_image(tmp_path / name)
    for name in ("labels.txt", "a/c.json"):
        (tmp_path / name).write_text("no picture")
    assert find_pictures(tmp_path) == (["a.bmp", "a/deep/er/c.png", "a/z.webp", "b.JPG"], 2)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (None, r"/pictures\b"),
        ([], r"/pictures .*\bpng\b"),
        (["a.txt", "b.csv"], r"/pictures .*\bpng\b.*\b2\b"),
    ],
)
def test_a_folder_without_pictures_is_said(files: list[str] | None, words: str, tmp_path: Path):
    folder = tmp_path / "pictures"
    if files is not None:
        folder.mkdir()
        for name in files:
            (folder / name).write_text("x")
    with pytest.raises(UserError, match=words):
        find_pictures(folder)


def test_the_choice_is_fixed_sorted_and_nested():
    names = [f"{index:04}" for index in range(1301)]
    some, more = chosen_pictures(names, 17, Path("x")), chosen_pictures(names, 113, Path("x"))
    assert some == sorted(some)
    assert len(set(more)) == 113
    assert set(some) < set(more)
    assert some != names[:17]
    assert some == chosen_pictures(names, 17, Path("elsewhere"))
    assert len(chosen_pictures(names, None, Path("x"))) == 1000
    assert chosen_pictures(names[:7], None, Path("x")) == names[:7]


def test_more_pictures_than_there_are_and_fewer_than_two_are_refused():
    with pytest.raises(UserError, match=r"--num-images is 11\b.*\bx\b.*\b7 images"):
        chosen_pictures([str(n) for n in range(7)], 11, Path("x"))
    with pytest.raises(UserError, match=r"\b2 images\b.*\b1\b.*\bx\b"):
        chosen_pictures(["a"], None, Path("x"))


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_batches_hold_every_picture_once_in_order(batch_size: int, tmp_path: Path):
    names = write_pictures(tmp_path, 11)
    expected = torch.stack(
        [
            torch.from_numpy(np.asarray(Image.open(tmp_path / name)).copy()).permute(2, 0, 1) / 255
            for name in names
        ]
    )
    batches = PictureBatches(tmp_path, names, AS_THEY_ARE, batch_size)
    for _ in range(2):
        found = list(batches)
        assert [len(batch) for batch in found[:-1]] == [batch_size] * (len(batches) - 1)
        assert torch.allclose(torch.cat(found), expected, atol=1e-6)


def test_the_hash_is_of_names_and_bytes(tmp_path: Path):
    names = write_pictures(tmp_path, 5)

    def found() -> str:
        batches = PictureBatches(tmp_path, names, AS_THEY_ARE, 2)
        list(batches)
        return pictures_hash(names, batches.digests)

    lines = "".join(
        f"{name} {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}\n" for name in names
    )
    first = found()
    assert first == hashlib.sha256(lines.encode()).hexdigest()[:16]
    write_image(tmp_path / names[3], (13, 11), seed=99)
    assert found() != first


def test_pictures_are_turned_as_the_camera_was_held_and_become_rgb(tmp_path: Path):
    pixels = np.zeros((5, 7, 3), np.uint8)
    pixels[0, 0] = 255  # the top left corner is top right after a quarter turn clockwise
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    write_image(tmp_path / "b.png", (5, 7), mode="L")
    assert equal_size(tmp_path, ["a.png", "b.png"]) == (7, 5)
    (batch,) = PictureBatches(tmp_path, ["a.png", "b.png"], AS_THEY_ARE, 2)
    assert batch.shape == (2, 3, 7, 5)
    assert batch[0, :, 0, 4].tolist() == [1, 1, 1]
    assert batch[0].sum() == 3
    assert torch.equal(batch[1, 0], batch[1, 2])


def test_two_pictures_of_other_sizes_are_named(tmp_path: Path):
    for name, size in (("a.png", (13, 11)), ("b.png", (13, 11)), ("c.png", (13, 17))):
        write_image(tmp_path / name, size)
    with pytest.raises(UserError, match=r"a\.png .*11x13 .*c\.png .*17x13 .*--no-resize"):
        equal_size(tmp_path, ["a.png", "b.png", "c.png"])


@pytest.mark.parametrize("cut", [0, 20, -30])
def test_a_corrupt_picture_is_named(cut: int, tmp_path: Path):
    names = write_pictures(tmp_path, 7)
    wrong = tmp_path / names[4]
    wrong.write_bytes(wrong.read_bytes()[:cut] if cut else b"no picture")
    with pytest.raises(UserError, match=f"{wrong} .*--skip-corrupt"):
        list(PictureBatches(tmp_path, names, AS_THEY_ARE, 2))
    if cut != -30:
        with pytest.raises(UserError, match=f"{wrong} "):
            equal_size(tmp_path, names)


def test_reading_runs_ahead_by_one_batch_only(tmp_path: Path):
    names = write_pictures(tmp_path, 23)
    batches = PictureBatches(tmp_path, names, AS_THEY_ARE, 3)
    running = iter(batches)
    next(running)
    assert len(batches.digests) <= 6
    running.close()
