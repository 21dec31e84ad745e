"""Open ADE20K, as used by the scene-parsing challenge: 150 classes.

The official layout is ``ADEChallengeData2016`` with ``images/{training,validation}``,
``annotations/{training,validation}`` and ``objectInfo150.txt``. The value 0 in a mask stands for
everything else and is not scored (other code calls this "reduce zero label"); the values 1 to 150
become classes 0 to 149.
"""

from __future__ import annotations

from pathlib import Path

from nearsight.core import UserError
from nearsight.data.segmentation.segments import (
    VOID,
    FileSegments,
    choose_folder,
    choose_split,
    pair_files,
    read_lines,
)

FOLDERS = {"train": "training", "val": "validation"}
CLASS_LIST = "objectInfo150.txt"
NUM_CLASSES = 150


def ade20k(root: Path, split: str) -> FileSegments:
    """Open a split of ADE20K below ``root``."""
    folder = choose_folder(root, ("ADEChallengeData2016",), "ade20k")
    part = FOLDERS[choose_split(split, tuple(FOLDERS), "ade20k")]
    images = folder / "images" / part
    names = sorted(path.stem for path in images.glob("*.jpg"))
    classes = class_names(folder / CLASS_LIST)
    return FileSegments(
        name="ade20k",
        split=split,
        classes=classes,
        files=pair_files(images, folder / "annotations" / part, names),
        labels={0: VOID, **{label + 1: label for label in range(NUM_CLASSES)}},
    )


def class_names(path: Path) -> tuple[str, ...]:
    """Read the first name of each class from the official list.

    If an earlier class has the same name, the number of the class is appended to it.
    """
    rows = [line.split("\t") for line in read_lines(path)[1:]]
    numbers = [row[0].strip() for row in rows]
    if numbers != [str(number) for number in range(1, NUM_CLASSES + 1)]:
        raise UserError(
            f"the class list {path} does not match ADE20K: it has {len(rows)} lines below its "
            f"heading instead of the {NUM_CLASSES} numbered classes; unpack the data set again"
        )
    names: list[str] = []
    for number, row in zip(numbers, rows):
        name = row[-1].split(",")[0].strip()
        names.append(f"{name} {number}" if name in names else name)
    return tuple(names)
