"""Open any folder of images and masks.

The layout is ``PATH/<split>/{images,masks}`` or ``PATH/{images,masks}/<split>``. A mask is a grey
or palette PNG file with the name of its image. Its values are the numbers of classes, and 255 means
that the class is not known. ``PATH/classes.txt`` names the classes, one per line, starting with
number 0. Without this file, the classes are the numbers up to the largest value in the masks of all
splits.
"""

from __future__ import annotations

from pathlib import Path

from nearsight.core import UserError
from nearsight.data.segmentation.segments import (
    VOID,
    FileSegments,
    choose_split,
    pair_files,
    read_grey,
    read_lines,
)
from nearsight.data.sets import SUFFIXES

IMAGES, MASKS, CLASS_LIST = "images", "masks", "classes.txt"


def mask_folder(folder: Path, split: str) -> FileSegments:
    """Open a split of a folder of images and masks."""
    places = find_splits(folder)
    images, masks = places[choose_split(split, sorted(places), str(folder))]
    names = sorted(
        path.stem
        for path in images.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )
    classes = class_names(folder, [masks for _, masks in places.values()])
    return FileSegments(
        name=f"folder:{folder}",
        split=split,
        classes=classes,
        files=pair_files(images, masks, names),
        labels={**{label: label for label in range(len(classes))}, VOID: VOID},
    )


def find_splits(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Return the folder of images and the folder of masks of every split."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the path of a segmentation set")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if IMAGES in names and MASKS in names:
        splits = sorted(path.name for path in (folder / IMAGES).iterdir() if path.is_dir())
        folders = {name: (folder / IMAGES / name, folder / MASKS / name) for name in splits}
    else:
        folders = {
            name: (folder / name / IMAGES, folder / name / MASKS)
            for name in names
            if (folder / name / IMAGES).is_dir()
        }
    if not folders:
        raise UserError(
            f"{folder} is not a segmentation set: it needs {folder}/<split>/{IMAGES} and "
            f"{folder}/<split>/{MASKS}, for example with the splits train and val"
        )
    for name, (_, masks) in folders.items():
        if not masks.is_dir():
            raise UserError(
                f"the split {name} has images but no masks: there is no folder {masks}; add it"
            )
    return folders


def class_names(folder: Path, mask_folders: list[Path]) -> tuple[str, ...]:
    """Return the names in ``classes.txt``, or without it, the numbers up to the largest value."""
    if (folder / CLASS_LIST).is_file():
        return tuple(read_lines(folder / CLASS_LIST))
    largest = -1
    for masks in mask_folders:
        for path in sorted(masks.glob("*.png")):
            values = read_grey(path)
            known = values[values != VOID]
            largest = max(largest, int(known.max()) if known.size else -1)
    if largest < 0:
        raise UserError(
            f"the masks below {folder} have no pixel whose class is known; give every class a "
            "value from 0 to 254"
        )
    return tuple(str(number) for number in range(largest + 1))
