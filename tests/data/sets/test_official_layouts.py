"""ImageNet and mini-ImageNet as they are distributed, on small sets in the same layouts."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from nearsight.core import UserError
from nearsight.data.sets.catalog import load_dataset, register_dataset
from nearsight.data.sets.image_folder import list_images
from nearsight.protocol import DataSettings

WNIDS = ("n02000003", "n01000001", "n03000007")  # ILSVRC ids 1, 2, 3: not in alphabetical order
OF_VAL = (2, 0, 1, 1, 2)  # the class of every validation image, as an index of WNIDS


def write_jpeg(path: Path, value: int, size: tuple[int, int] = (11, 7)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((size[1], size[0], 3), value, np.uint8)
    pixels[: size[1] // 2] //= 2
    Image.fromarray(pixels).save(path, "JPEG")


def write_images(train: Path, val: Path) -> None:
    for number, wnid in enumerate(WNIDS):
        for index in range(5):
            write_jpeg(train / wnid / f"{wnid}_{index}.JPEG", 40 * number + index)
    for index, number in enumerate(OF_VAL, 1):
        write_jpeg(val / f"ILSVRC2012_val_{index:08}.JPEG", 40 * number + 20 + index)


def solution(root: Path) -> None:
    rows = [
        f"ILSVRC2012_val_{index:08},{WNIDS[number]} 1 2 3 4 "
        for index, number in enumerate(OF_VAL, 1)
    ]
    (root / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *rows, ""]))


def boxes(root: Path) -> None:
    folder = root / "ILSVRC/Annotations/CLS-LOC/val"
    folder.mkdir(parents=True)
    for index, number in enumerate(OF_VAL, 1):
        text = f"<annotation>\n<object>\n <name>{WNIDS[number]}</name>\n</object>\n</annotation>"
        (folder / f"ILSVRC2012_val_{index:08}.xml").write_text(text)


def kit(root: Path) -> None:
    folder = root / "ILSVRC2012_devkit_t12" / "data"
    folder.mkdir(parents=True)
    lines = "".join(f"{number + 1}\n" for number in OF_VAL)
    (folder / "ILSVRC2012_validation_ground_truth.txt").write_text(lines)
    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O")]
    synsets = np.array([[(index, wnid)] for index, wnid in enumerate(WNIDS, 1)], dtype=kinds)
    savemat(folder / "meta.mat", {"synsets": synsets})


@pytest.mark.parametrize("labels", [solution, boxes, kit])
@pytest.mark.parametrize(
    ("train", "val"),
    [
        ("train", "val"), ("ILSVRC2012_img_train", "ILSVRC2012_img_val"),
        ("ILSVRC/Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/val"),
    ],
)  # fmt: skip
def test_every_list_of_labels_gives_the_same_classes(
    tmp_path: Path, labels, train: str, val: str
) -> None:
    write_images(tmp_path / train, tmp_path / val)
    labels(tmp_path)
    found = list_images(tmp_path)
    assert found.classes == tuple(sorted(WNIDS))
    assert len(found.train) == 15
    named = [(path.name, found.classes[label]) for path, label in found.test]
    assert named == [
        (f"ILSVRC2012_val_{index:08}.JPEG", WNIDS[number]) for index, number in enumerate(OF_VAL, 1)
    ]
    assert all(path.name.startswith(found.classes[label]) for path, label in found.train)
    assert found.notes == ()


def test_validation_images_sorted_into_classes_are_the_same_set(tmp_path: Path) -> None:
    one, other = tmp_path / "flat", tmp_path / "sorted"
    for root in (one, other):
        write_images(root / "ILSVRC2012_img_train", root / "ILSVRC2012_img_val")
    solution(one)
    for index, number in enumerate(OF_VAL, 1):
        path = other / "ILSVRC2012_img_val" / f"ILSVRC2012_val_{index:08}.JPEG"
        (path.parent / WNIDS[number]).mkdir(exist_ok=True)
        path.rename(path.parent / WNIDS[number] / path.name)
    first, second = list_images(one), list_images(other)
    assert first.classes == second.classes
    assert sorted((path.name, label) for path, label in first.test) == sorted(
        (path.name, label) for path, label in second.test
    )


def test_validation_images_without_labels_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    write_images(tmp_path / "train", tmp_path / "val")
    with pytest.raises(UserError, match=r"/val .*LOC_val_solution\.csv"):
        list_images(tmp_path)


def test_labels_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write_images(tmp_path / "train", tmp_path / "val")
    solution(tmp_path)
    list_file = tmp_path / "LOC_val_solution.csv"
    whole = list_file.read_text()
    list_file.write_text(whole.replace(WNIDS[1], "n09999999"))
    with pytest.raises(UserError, match=r"_00000003\.JPEG .*'n09999999'"):
        list_images(tmp_path)
    list_file.write_text("\n".join(whole.splitlines()[:3]))
    with pytest.raises(UserError, match=r"_00000003\.JPEG "):
        list_images(tmp_path)
    list_file.write_text("image,label\n")
    with pytest.raises(
        UserError, match=r"LOC_val_solution\.csv .*\bImageId\b.*\bPredictionString\b"
    ):
        list_images(tmp_path)


def test_a_kit_of_another_length_and_without_names_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path / "train", tmp_path / "val")
    kit(tmp_path)
    folder = tmp_path / "ILSVRC2012_devkit_t12" / "data"
    with (folder / "ILSVRC2012_validation_ground_truth.txt").open("a") as handle:
        handle.write("1\n")
    with pytest.raises(UserError, match=r"_ground_truth\.txt .*\b6\b.*\b5\b"):
        list_images(tmp_path)
    (folder / "meta.mat").unlink()
    with pytest.raises(UserError, match=r"_ground_truth\.txt .*\bmeta\.mat\b"):
        list_images(tmp_path)


def write_mini(root: Path) -> None:
    """Three classes of seven images, one class in each list, as the official lists have them."""
    for name, wnid in zip(("train", "val", "test"), WNIDS):
        files = [f"{wnid}{index:08}.jpg" for index in range(7)]
        for index, file in enumerate(files):
            write_jpeg(root / "images" / file, 30 * WNIDS.index(wnid) + index)
        rows = [f"{file},{wnid}" for file in files]
        (root / f"{name}.csv").write_text("\n".join(["filename,label", *rows, ""]))


def test_the_lists_of_mini_imagenet_are_taken_together_and_a_fifth_of_a_class_is_held_out(
    tmp_path: Path,
) -> None:
    write_mini(tmp_path)
    found = list_images(tmp_path)
    assert found.classes == tuple(sorted(WNIDS))
    assert [sum(label == x for _, label in found.test) for x in range(3)] == [1, 1, 1]
    assert len(found.train) == 18
    assert not {path for path, _ in found.train} & {path for path, _ in found.test}
    assert all(path.name.startswith(found.classes[label]) for path, label in found.train)
    assert "a stratified fifth (3 of 21 images)" in found.notes[0]


def test_an_image_that_a_list_names_must_be_there(tmp_path: Path) -> None:
    write_mini(tmp_path)
    (tmp_path / "images" / f"{WNIDS[1]}00000002.jpg").unlink()
    with pytest.raises(UserError, match=r"/val\.csv .*/images/n0100000100000002\.jpg"):
        list_images(tmp_path)


@pytest.mark.parametrize("decoded", [True, False], ids=["decoded", "from files"])
def test_a_registered_official_set_loads_by_name_with_the_same_bytes(
    tmp_path: Path, decoded: bool
) -> None:
    official, usual, root = tmp_path / "official", tmp_path / "usual", tmp_path / "root"
    write_images(official / "train", official / "val")
    solution(official)
    shutil.copytree(official / "train", usual / "train")
    for index, number in enumerate(OF_VAL, 1):
        name = f"ILSVRC2012_val_{index:08}.JPEG"
        (usual / "val" / WNIDS[number]).mkdir(parents=True, exist_ok=True)
        shutil.copy(official / "val" / name, usual / "val" / WNIDS[number] / name)
    register_dataset("mine", official, root)
    settings = DataSettings(name="mine", image_size=5, decoded=decoded)
    one = load_dataset(settings, root)
    other = load_dataset(DataSettings(name=f"folder:{usual}", image_size=5, decoded=decoded), root)
    assert one.name == "mine"
    assert np.array_equal(one.train.images[0:15], other.train.images[0:15])
    order = np.argsort(one.test.labels, kind="stable")
    assert np.array_equal(one.test.images[order], other.test.images[0:5])
