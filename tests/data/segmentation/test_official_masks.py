"""Every named set is read from its official layout, and its values become the right classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data.segmentation.made_masks import SIZE, drawn_values, write_mask, write_voc
from made_data import write_image
from PIL import Image
from scipy.io import savemat

from nearsight.core import UserError
from nearsight.data import open_segmentation

ADE_CLASSES = [f"thing{number}, alias{number}" for number in range(1, 151)]


def test_voc_keeps_its_values_its_background_and_the_order_of_its_list(tmp_path: Path) -> None:
    masks = write_voc(tmp_path)
    train = open_segmentation("voc2012", tmp_path, "train")
    assert (len(train), len(open_segmentation("voc2012", tmp_path, "val"))) == (2, 1)
    image, mask = train[0]
    assert (image.mode, image.size, mask.dtype) == ("RGB", SIZE, np.uint8)
    np.testing.assert_array_equal(mask, masks["2007_31"])
    np.testing.assert_array_equal(train[1][1], masks["2007_29"])
    assert len(train.classes) == 21
    assert [train.classes[i] for i in (0, 3, 15, 20)] == [
        "background", "bird", "person", "tvmonitor",
    ]  # fmt: skip


def test_the_augmented_training_set_of_voc_has_its_own_masks(tmp_path: Path) -> None:
    write_voc(tmp_path)
    folder = tmp_path / "VOCdevkit" / "VOC2012"
    (folder / "ImageSets" / "Segmentation" / "trainaug.txt").write_text("2007_29\n")
    other = drawn_values([0, 7], seed=43)
    write_mask(folder / "SegmentationClassAug" / "2007_29.png", other)
    np.testing.assert_array_equal(open_segmentation("voc2012", tmp_path, "trainaug")[0][1], other)


def write_ade(root: Path, values: np.ndarray) -> Path:
    folder = root / "ADEChallengeData2016"
    write_image(folder / "images" / "validation" / "ADE_val_1.jpg", SIZE)
    write_mask(folder / "annotations" / "validation" / "ADE_val_1.png", values)
    lines = [f"{number}\t0.1\t3\t7\t{name}" for number, name in enumerate(ADE_CLASSES, 1)]
    (folder / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *lines]))
    return folder


def test_ade_does_not_score_its_zero_and_counts_from_one(tmp_path: Path) -> None:
    values = drawn_values([0, 1, 150], seed=1)
    write_ade(tmp_path, values)
    found = open_segmentation("ade20k", tmp_path, "val")
    np.testing.assert_array_equal(found[0][1], np.where(values == 0, 255, values - 1))
    assert (len(found.classes), found.classes[0], found.classes[149]) == (150, "thing1", "thing150")


def test_a_class_list_of_ade_that_lacks_a_class_is_refused(tmp_path: Path) -> None:
    folder = write_ade(tmp_path, drawn_values([1], seed=1))
    lines = (folder / "objectInfo150.txt").read_text().splitlines()
    (folder / "objectInfo150.txt").write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match=r"objectInfo150\.txt .*ADE20K(?=.*\b150\b).*\b149\b"):
        open_segmentation("ade20k", tmp_path, "val")


def write_context_images(root: Path, lists: str) -> Path:
    folder = root / "VOCdevkit" / "VOC2010"
    write_image(folder / "JPEGImages" / "2008_41.jpg", SIZE)
    (folder / "ImageSets" / lists).mkdir(parents=True)
    (folder / "ImageSets" / lists / "val.txt").write_text("2008_41\n")
    return folder


def test_context_with_59_values_does_not_score_its_zero(tmp_path: Path) -> None:
    folder = write_context_images(tmp_path, "SegmentationContext")
    values = drawn_values([0, 1, 59], seed=2)
    write_mask(folder / "SegmentationClassContext" / "2008_41.png", values)
    found = open_segmentation("pascal-context", tmp_path, "val")
    np.testing.assert_array_equal(found[0][1], np.where(values == 0, 255, values - 1))
    assert (len(found.classes), found.classes[58]) == (59, "wood")


def write_context_labels(folder: Path, left_out: str = "") -> None:
    from nearsight.data.segmentation.pascal_context import CLASSES

    names = {401: "accordion", **dict(enumerate(CLASSES, 7))}
    lines = [f"{number}: {name}" for number, name in names.items() if name != left_out]
    (folder / "labels.txt").write_text("\n".join(lines))


def test_the_official_labels_of_context_are_reduced_by_their_names(tmp_path: Path) -> None:
    folder = write_context_images(tmp_path, "Main")
    (folder / "trainval").mkdir()
    values = drawn_values([401, 7, 8], seed=3)  # accordion, aeroplane, bicycle
    savemat(folder / "trainval" / "2008_41.mat", {"LabelMap": values.astype(np.uint16)})
    write_context_labels(folder)
    found = open_segmentation("pascal-context", tmp_path, "val")
    np.testing.assert_array_equal(found[0][1], np.where(values == 401, 255, values - 7))
    write_context_labels(folder, left_out="wood")
    with pytest.raises(UserError, match=r"labels\.txt .*PASCAL-Context.*\bwood\b"):
        open_segmentation("pascal-context", tmp_path, "val")


def test_coco_stuff_skips_the_numbers_that_were_never_used(tmp_path: Path) -> None:
    folder = tmp_path / "coco_stuff164k"
    write_image(folder / "images" / "val2017" / "000000000139.jpg", SIZE)
    values = drawn_values([0, 10, 12, 91, 181, 255], seed=4)
    write_mask(folder / "annotations" / "val2017" / "000000000139.png", values)
    found = open_segmentation("coco-stuff", tmp_path, "val")
    mask = found[0][1]
    named = {value: found.classes[mask[values == value][0]] for value in (0, 10, 12, 91, 181)}
    assert named == {0: "person", 10: "fire hydrant", 12: "stop sign", 91: "banner", 181: "wood"}
    assert (mask[values == 255] == 255).all()
    assert len(found.classes) == 171


def test_camvid_in_colours_is_read_by_its_list_and_split_by_its_frames(tmp_path: Path) -> None:
    folder = tmp_path / "CamVid"
    colours = {"Animal": (64, 128, 64), "Void": (0, 0, 0), "Wall": (64, 192, 0)}
    folder.mkdir()
    lines = [f"{r} {g} {b}\t{name}" for name, (r, g, b) in colours.items()]
    (folder / "label_colors.txt").write_text("\n".join(lines))
    values = drawn_values([0, 1, 2], seed=5)
    pixels = np.array(list(colours.values()), np.uint8)[values]
    for frame in ("0001TP_006690", "0016E5_08159", "Seq05VD_f00030"):
        write_image(folder / "701_StillsRaw_full" / f"{frame}.png", SIZE)
        masks = folder / "LabeledApproved_full"
        masks.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(masks / f"{frame}_L.png")
    found = {split: open_segmentation("camvid", tmp_path, split) for split in ("train", "val")}
    assert found["train"].classes == ("Animal", "Wall")
    np.testing.assert_array_equal(found["val"][0][1], np.array([0, 255, 1])[values])
    assert found["train"].files[0][0].stem == "0001TP_006690"
    assert found["val"].files[0][0].stem == "0016E5_08159"
    pixels[5, 11] = (1, 2, 3)
    Image.fromarray(pixels).save(masks / "0016E5_08159_L.png")
    with pytest.raises(UserError, match=r"\(1, 2, 3\) .*\brow 5, column 11\b.*label_colors\.txt"):
        found["val"][0]


def test_camvid_as_segnet_has_it_takes_eleven_for_void(tmp_path: Path) -> None:
    values = drawn_values([0, 10, 11], seed=6)
    write_image(tmp_path / "CamVid" / "test" / "Seq05VD_f00000.png", SIZE)
    write_mask(tmp_path / "CamVid" / "testannot" / "Seq05VD_f00000.png", values)
    found = open_segmentation("camvid", tmp_path, "test")
    np.testing.assert_array_equal(found[0][1], np.where(values == 11, 255, values))
    assert (found.classes[0], found.classes[10]) == ("sky", "bicyclist")


@pytest.mark.slow
def test_shapes_give_the_class_of_the_object_to_its_pixels(tmp_path: Path) -> None:
    from nearsight.data.sets import load_dataset
    from nearsight.protocol import DataSettings

    found = open_segmentation("shapes", tmp_path, "val")
    test = load_dataset(DataSettings(name="shapes"), tmp_path).test
    image, mask = found[41]
    np.testing.assert_array_equal(np.asarray(image).transpose(2, 0, 1), test.images[41])
    np.testing.assert_array_equal(mask > 0, test.masks[41] == 1)
    assert set(np.unique(mask)) == {0, test.labels[41] + 1}
    assert found.classes[test.labels[41] + 1] == ("background", *found.classes[1:])[mask.max()]
    assert found.identity != open_segmentation("shapes", tmp_path, "train").identity


def test_the_real_voc_has_its_official_numbers_of_images(real_data: Path) -> None:
    sizes = {
        split: len(open_segmentation("voc2012", real_data, split)) for split in ("train", "val")
    }
    assert sizes == {"train": 1464, "val": 1449}
