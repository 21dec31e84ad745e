"""Open PASCAL-Context: 59 classes on the images of PASCAL VOC 2010.

The images are in ``VOCdevkit/VOC2010/JPEGImages``. Two layouts of the labels are in use beside it:

- the official labels: files ``trainval/<image>.mat``, each with a ``LabelMap`` of more than 400
  labels whose names are in ``labels.txt``, and the splits in ``ImageSets/Main/{train,val}.txt``;
- labels reduced to 59: ``SegmentationClassContext/<image>.png`` with values 0 to 59, and the
  splits in ``ImageSets/SegmentationContext/{train,val}.txt``.

Pixels of none of the 59 classes (value 0) are not scored.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearsight.core import UserError
from nearsight.data.segmentation.segments import (
    VOID,
    FileSegments,
    choose_folder,
    choose_split,
    pair_files,
    read_lines,
)

SPLITS = ("train", "val")
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "table",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
    "bag", "bed", "bench", "book", "building", "cabinet", "ceiling", "cloth", "computer", "cup",
    "door", "fence", "floor", "flower", "food", "grass", "ground", "keyboard", "light", "mountain",
    "mouse", "curtain", "platform", "sign", "plate", "road", "rock", "shelves", "sidewalk", "sky",
    "snow", "bedclothes", "track", "tree", "truck", "wall", "water", "window", "wood",
)  # fmt: skip


def pascal_context(root: Path, split: str) -> FileSegments:
    """Open a split of PASCAL-Context below ``root``."""
    folder = choose_folder(root, ("VOC2010", "VOCdevkit/VOC2010"), "pascal-context")
    choose_split(split, SPLITS, "pascal-context")
    images = folder / "JPEGImages"
    if (folder / "trainval").is_dir():
        names = read_lines(folder / "ImageSets" / "Main" / f"{split}.txt")
        annotated = {path.stem for path in (folder / "trainval").glob("*.mat")}
        names = [name for name in names if name in annotated]  # Main lists more images
        return FileSegments(
            name="pascal-context",
            split=split,
            classes=CLASSES,
            files=pair_files(images, folder / "trainval", names, ".mat"),
            labels=reduced_labels(folder / "labels.txt"),
            read_values=read_label_map,
        )
    names = read_lines(folder / "ImageSets" / "SegmentationContext" / f"{split}.txt")
    return FileSegments(
        name="pascal-context",
        split=split,
        classes=CLASSES,
        files=pair_files(images, folder / "SegmentationClassContext", names),
        labels={0: VOID, **{label + 1: label for label in range(len(CLASSES))}},
    )


def reduced_labels(path: Path) -> dict[int, int]:
    """Return the class of every label in the official list, whose lines are ``number: name``."""
    names = {}
    for line in read_lines(path):
        number, colon, name = line.partition(":")
        if not colon or not number.strip().isdigit():
            raise UserError(f"{path} should have lines of `number: name`, but one line is {line!r}")
        names[int(number)] = name.strip()
    if missing := sorted(set(CLASSES) - set(names.values())):
        raise UserError(
            f"the class list {path} does not match PASCAL-Context: it lacks {', '.join(missing)}; "
            "unpack the data set again"
        )
    classes = {name: label for label, name in enumerate(CLASSES)}
    return {0: VOID, **{number: classes.get(name, VOID) for number, name in names.items()}}


def read_label_map(path: Path) -> np.ndarray:
    """Read the label values of a MATLAB file."""
    from scipy.io import loadmat

    try:
        return loadmat(str(path))["LabelMap"].astype(np.int64)
    except (OSError, ValueError, TypeError, KeyError, NotImplementedError) as problem:
        raise UserError(
            f"cannot read the LabelMap of {path} ({problem}); unpack trainval.tar.gz again"
        ) from None
