"""Open CamVid, frames of drives through Cambridge, in either of the two layouts in use.

- The official layout: ``701_StillsRaw_full/<frame>.png``, ``LabeledApproved_full/<frame>_L.png`` in
  colours, and ``label_colors.txt`` with the colours of 31 classes and of ``Void``. The usual split
  is by frame: the second half of the drive at dusk and all of ``Seq05VD`` are the test set, and the
  frames of ``0016E5`` that were taken at 15 Hz are the validation set.
- The layout of SegNet: ``{train,val,test}`` and ``{train,val,test}annot`` with values 0 to 10 for
  11 classes and 11 for void.
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
    read_colours,
    read_lines,
)

SPLITS = ("train", "val", "test")
IMAGES, MASKS, COLOURS = "701_StillsRaw_full", "LabeledApproved_full", "label_colors.txt"
CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian",
    "bicyclist",
)  # fmt: skip
FIRST_TEST_FRAME_AT_DUSK = 8550  # of 0001TP
FRAMES_AT_15_HZ = range(7959, 8160)  # of 0016E5


def camvid(root: Path, split: str) -> FileSegments:
    """Open a split of CamVid below ``root``."""
    folder = choose_folder(root, ("CamVid", "camvid"), "camvid")
    choose_split(split, SPLITS, "camvid")
    if (folder / IMAGES).is_dir():
        return _official(folder, split)
    images = folder / split
    names = sorted(path.stem for path in images.glob("*.png"))
    return FileSegments(
        name="camvid",
        split=split,
        classes=CLASSES,
        files=pair_files(images, folder / f"{split}annot", names),
        labels={
            **{label: label for label in range(len(CLASSES))},
            len(CLASSES): VOID,
            VOID: VOID,
        },
    )


def _official(folder: Path, split: str) -> FileSegments:
    colours = read_palette(folder / COLOURS)
    classes = tuple(name for name in colours.values() if name != "Void")
    frames = sorted(path.stem for path in (folder / IMAGES).glob("*.png"))
    return FileSegments(
        name="camvid",
        split=split,
        classes=classes,
        files=pair_files(
            folder / IMAGES,
            folder / MASKS,
            [frame for frame in frames if split_of_frame(frame) == split],
            "_L.png",
        ),
        labels={**{label: label for label in range(len(classes))}, VOID: VOID},
        read_values=lambda path: values_of_colours(path, colours),
    )


def split_of_frame(frame: str) -> str:
    """Return the usual split of a frame of the official set.

    Raises:
        UserError: If there is no such frame in CamVid.

    >>> [split_of_frame(x) for x in ("0001TP_008520", "0001TP_008550", "Seq05VD_f00000")]
    ['train', 'test', 'test']
    >>> [split_of_frame(x) for x in ("0016E5_07959", "0016E5_04530", "0006R0_f00930")]
    ['val', 'train', 'train']
    """
    drive, _, number = frame.partition("_")
    digits = number.lstrip("f")
    if drive not in ("0001TP", "0006R0", "0016E5", "Seq05VD") or not digits.isdigit():
        raise UserError(
            f"{frame} is not the name of a frame of CamVid, so its split is not known; "
            "remove it or unpack the data set again"
        )
    if drive == "Seq05VD" or (drive == "0001TP" and int(digits) >= FIRST_TEST_FRAME_AT_DUSK):
        return "test"
    return "val" if drive == "0016E5" and int(digits) in FRAMES_AT_15_HZ else "train"


def read_palette(path: Path) -> dict[tuple[int, int, int], str]:
    """Read the class names by colour from a file with lines of ``R G B name``."""
    palette: dict[tuple[int, int, int], str] = {}
    for line in read_lines(path):
        words = line.split()
        if len(words) != 4 or not all(word.isdigit() for word in words[:3]):
            raise UserError(f"{path} should have lines of `R G B name`, but one line is {line!r}")
        palette[int(words[0]), int(words[1]), int(words[2])] = words[3]
    if "Void" not in palette.values():
        raise UserError(
            f"the class list {path} does not match CamVid: it lacks Void; unpack the data set again"
        )
    return palette


def values_of_colours(path: Path, palette: dict[tuple[int, int, int], str]) -> np.ndarray:
    """Read a mask in colours, and return the class of every pixel."""
    pixels = read_colours(path).astype(np.int64)
    codes = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    values = np.full(codes.shape, -1, np.int64)
    label = 0
    for (red, green, blue), name in palette.items():
        values[codes == (red << 16 | green << 8 | blue)] = VOID if name == "Void" else label
        label += name != "Void"
    if (values < 0).any():
        row, col = np.argwhere(values < 0)[0]
        raise UserError(
            f"the mask {path} has the colour {tuple(pixels[row, col].tolist())} at row {row}, "
            f"column {col}, which {COLOURS} does not list; unpack the data set again"
        )
    return values
