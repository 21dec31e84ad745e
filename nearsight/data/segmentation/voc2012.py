"""Open PASCAL VOC 2012 for segmentation: 20 classes, and the background as another class.

The official layout is ``VOCdevkit/VOC2012`` with ``JPEGImages``, ``SegmentationClass`` and
``ImageSets/Segmentation/{train,val,trainval}.txt``; 255 marks the borders of objects, whose class
is not known. The split ``trainaug`` is the list of 10,582 training images that published results
use; its masks are in ``SegmentationClassAug``.
"""

from __future__ import annotations

from pathlib import Path

from nearsight.data.segmentation.segments import (
    VOID,
    FileSegments,
    choose_folder,
    choose_split,
    pair_files,
    read_lines,
)

CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair",
    "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa",
    "train", "tvmonitor",
)  # fmt: skip
MASKS = {
    "train": "SegmentationClass",
    "val": "SegmentationClass",
    "trainval": "SegmentationClass",
    "trainaug": "SegmentationClassAug",
}


def voc2012(root: Path, split: str) -> FileSegments:
    """Open a split of PASCAL VOC 2012 below ``root``."""
    folder = choose_folder(root, ("VOC2012", "VOCdevkit/VOC2012"), "voc2012")
    masks = folder / MASKS[choose_split(split, tuple(MASKS), "voc2012")]
    names = read_lines(folder / "ImageSets" / "Segmentation" / f"{split}.txt")
    return FileSegments(
        name="voc2012",
        split=split,
        classes=CLASSES,
        files=pair_files(folder / "JPEGImages", masks, names),
        labels={**{value: value for value in range(len(CLASSES))}, VOID: VOID},
    )
