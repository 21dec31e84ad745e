"""What is wrong with a segmentation set is said with the file's name, before anything is scored."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from data.segmentation.made_masks import SIZE, drawn_values, write_folder, write_mask, write_voc
from made_data import write_image

from nearsight.core import UserError
from nearsight.data import open_segmentation


def test_a_folder_is_read_in_the_order_of_its_names_and_named_by_numbers(tmp_path: Path) -> None:
    masks = write_folder(tmp_path)
    found = open_segmentation(tmp_path, split="train")
    assert found.classes == ("0", "1", "2", "3", "4")
    for index, name in enumerate(masks):
        np.testing.assert_array_equal(found[index][1], masks[name])


def test_a_folder_may_have_its_splits_below_images_and_masks(tmp_path: Path) -> None:
    masks = write_folder(tmp_path / "one")
    for split in ("train", "val"):
        for kind in ("images", "masks"):
            (tmp_path / "two" / kind).mkdir(parents=True, exist_ok=True)
            shutil.copytree(tmp_path / "one" / split / kind, tmp_path / "two" / kind / split)
    found = open_segmentation(tmp_path / "two", split="val")
    np.testing.assert_array_equal(found[1][1], masks["b"])
    assert found.identity == open_segmentation(tmp_path / "one", split="val").identity


def test_the_identity_changes_with_a_pixel_of_a_mask_or_a_name_of_a_class(tmp_path: Path) -> None:
    masks = write_folder(tmp_path)
    before = open_segmentation(tmp_path).identity
    assert open_segmentation(tmp_path).identity == before
    (tmp_path / "classes.txt").write_text("sky\nsea\nsand\nship\nshell\n")
    named = open_segmentation(tmp_path).identity
    changed = masks["b"].copy()
    changed[3, 5] = 1
    write_mask(tmp_path / "val" / "masks" / "b.png", changed)
    assert len({before, named, open_segmentation(tmp_path).identity}) == 3


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_image(tmp_path / "val" / "images" / "b.png", (SIZE[1], SIZE[0]))
    found = open_segmentation(tmp_path)
    with pytest.raises(UserError, match=r"/masks/b\.png .*\b13 x 7\b.* b\.png .*\b7 x 13\b"):
        found[1]


def test_a_value_without_a_class_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "classes.txt").write_text("sky\nsea\nsand\n\n")
    found = open_segmentation(tmp_path)
    with pytest.raises(UserError, match=r"/masks/a\.png .*\b4\b.*\(3 classes"):
        found[0]


def test_a_class_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "classes.txt").write_text("sky\nsea\nsky\n")
    with pytest.raises(UserError, match="'sky'"):
        open_segmentation(tmp_path)


def test_a_missing_mask_is_refused_when_the_set_is_opened(tmp_path: Path) -> None:
    write_voc(tmp_path)
    missing = tmp_path / "VOCdevkit" / "VOC2012" / "SegmentationClass" / "2007_29.png"
    missing.unlink()
    with pytest.raises(UserError, match=r"/2007_29\.jpg .*/SegmentationClass/2007_29\.png"):
        open_segmentation("voc2012", tmp_path, "train")


def test_an_image_of_the_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_voc(tmp_path)
    (tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages" / "2008_37.jpg").unlink()
    with pytest.raises(UserError, match=r"\b2008_37\b.*/JPEGImages"):
        open_segmentation("voc2012", tmp_path, "val")


def test_an_image_without_a_known_pixel_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_mask(tmp_path / "val" / "masks" / "a.png", np.full((SIZE[1], SIZE[0]), 255))
    found = open_segmentation(tmp_path)
    with pytest.raises(UserError, match=r"/masks/a\.png\b"):
        found[0]


def test_a_mask_in_colours_is_refused_where_values_are_expected(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "classes.txt").write_text("0\n1\n2\n3\n4\n")
    write_image(tmp_path / "val" / "masks" / "a.png", SIZE)
    found = open_segmentation(tmp_path)
    with pytest.raises(UserError, match=r"/masks/a\.png .*\(RGB\)"):
        found[0]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "classes.txt").write_text("0\n1\n2\n3\n4\n")
    (tmp_path / "val" / "masks" / "a.png").write_bytes(b"no image")
    found = open_segmentation(tmp_path)
    with pytest.raises(UserError, match=r"/masks/a\.png\b"):
        found[0]


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("voc2013", "val", "did you mean voc2012"),
        ("voc2012", "test", r"\bvoc2012\b.*'test'.*\btrain, val\b"),
        ("ade20k", "val", r"\bade20k\b.*ADEChallengeData2016.*--data-root"),
    ],
)
def test_an_unknown_name_or_split_is_refused(
    tmp_path: Path, name: str, split: str, message: str
) -> None:
    write_voc(tmp_path)
    with pytest.raises(UserError, match=message):
        open_segmentation(name, tmp_path, split)


def test_a_folder_without_masks_or_without_splits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"<split>/images .*<split>/masks"):
        open_segmentation(tmp_path)
    write_image(tmp_path / "val" / "images" / "a.png", SIZE)
    with pytest.raises(UserError, match=r"\bval\b.*/val/masks"):
        open_segmentation(tmp_path)


def test_a_mask_may_hold_more_values_than_eight_bits_tell_apart(tmp_path: Path) -> None:
    from PIL import Image

    write_folder(tmp_path)
    values = drawn_values([0, 4], seed=7)
    Image.fromarray(values.astype(np.uint16)).save(tmp_path / "val" / "masks" / "a.png")
    np.testing.assert_array_equal(open_segmentation(tmp_path)[0][1], values)
