"""Read one split of a segmentation set: images, and masks that are translated and checked.

A mask holds the number of the class of every pixel, 0 to the number of classes - 1, or 255
(``VOID``) where the class is not known. A table translates the label values in the files to these
numbers. A value that the set does not define is an error and never becomes a class of its own.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image, UnidentifiedImageError

from nearsight.core import UserError, read_text
from nearsight.data.sets import as_rgb, is_passing, open_image

VOID = 255
LARGEST_VALUE = 65_535
GREY_MODES = ("1", "L", "P", "I", "I;16")  # Pillow's modes of masks that hold label values

Mask = UInt8[np.ndarray, "h w"]
Values = Integer[np.ndarray, "h w"]


class Segments(ABC):
    """A split of a segmentation set: images, and a mask for each of them."""

    name: str
    split: str
    classes: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def image(self, index: int) -> Image.Image:
        """Return an image in RGB."""

    @abstractmethod
    def mask(self, index: int) -> Mask:
        """Return the class of every pixel of an image, VOID where it is not known."""

    def __getitem__(self, index: int) -> tuple[Image.Image, Mask]:
        return self.image(index), self.mask(index)

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return the first 16 hex digits of the sha256 over classes, images and masks."""


@dataclass(frozen=True)
class FileSegments(Segments):
    """A split whose images and masks are files."""

    name: str
    split: str
    classes: tuple[str, ...]
    files: Sequence[tuple[Path, Path]]  # an image and its mask
    labels: Mapping[int, int]  # label value in a mask file -> class, or VOID
    read_values: Callable[[Path], np.ndarray] | None = None  # None: a grey or palette image

    def __post_init__(self) -> None:
        if not self.files:
            raise UserError(
                f"the {self.split} split of {self.name} contains no images; choose another split"
            )
        if len(self.classes) > VOID:
            raise UserError(
                f"{self.name} has {len(self.classes)} classes, but a mask can hold only {VOID}"
            )
        if repeated := {x for x in self.classes if self.classes.count(x) > 1}:
            raise UserError(
                f"the class list of {self.name} has {min(repeated)!r} more than once; "
                "give every class a name of its own"
            )

    def __len__(self) -> int:
        return len(self.files)

    def image(self, index: int) -> Image.Image:
        """Return an image in RGB."""
        with _open(self.files[index][0]) as image:
            return as_rgb(image)

    def mask(self, index: int) -> Mask:
        """Return the class of every pixel of an image, VOID where it is not known."""
        image_path, mask_path = self.files[index]
        values = (self.read_values or read_grey)(mask_path)
        with _open(image_path, decode=False) as image:
            width, height = image.size
        if values.shape != (height, width):
            raise UserError(
                f"the mask {mask_path} is {values.shape[1]} x {values.shape[0]} pixels, but its "
                f"image {image_path.name} is {width} x {height}; a mask must have the size of its "
                "image"
            )
        return self._translate(values, mask_path)

    @cached_property
    def identity(self) -> str:
        """Return the first 16 hex digits of the sha256 over classes, images and masks."""
        digest = hashlib.sha256(f"{self.classes} {sorted(self.labels.items())}\n".encode())
        for pair in self.files:
            for path in pair:
                with path.open("rb") as handle:
                    content = hashlib.file_digest(handle, "sha256").hexdigest()
                digest.update(f"{path.name} {content}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()[:16]

    def _translate(self, values: Values, path: Path) -> Mask:
        mask = self._table[values]
        if (unknown := mask < 0).any():
            raise UserError(
                f"the mask {path} contains the label value {values[unknown].min()}, which "
                f"{self.name} does not define ({len(self.classes)} classes, values "
                f"{min(self.labels)} to {max(self.labels)}); check that the masks belong to this "
                "data set and to its class list"
            )
        if (mask == VOID).all():
            raise UserError(
                f"the mask {path} has no pixel whose class is known, so its image cannot be "
                "scored; remove the image from the split"
            )
        return mask.astype(np.uint8)

    @cached_property
    def _table(self) -> np.ndarray:
        table = np.full(LARGEST_VALUE + 1, -1, np.int16)
        for value, label in self.labels.items():
            table[value] = label
        return table


def read_grey(path: Path) -> Values:
    """Read the label values of a mask that is stored as a grey or palette image."""
    with _open(path) as image:
        if image.mode not in GREY_MODES:
            raise UserError(
                f"the mask {path} is a colour image ({image.mode}); it must be a grey or palette "
                "image whose values are labels"
            )
        values = np.asarray(image)
    return values.astype(np.int64) if values.dtype == bool else values


def read_colours(path: Path) -> UInt8[np.ndarray, "h w 3"]:
    """Read the colours of a mask that is stored as a colour image."""
    with _open(path) as image:
        return np.asarray(image.convert("RGB"))


def pair_files(
    image_folder: Path, mask_folder: Path, stems: Sequence[str], mask_suffix: str = ".png"
) -> list[tuple[Path, Path]]:
    """Find the image and the mask of every name in a list.

    Raises:
        UserError: If an image or a mask is missing; the message names the first one.
    """
    images = {path.stem: path for path in _files(image_folder)}
    masks = {path.name: path for path in _files(mask_folder)}
    pairs = []
    for stem in stems:
        if stem not in images:
            raise UserError(
                f"there is no image {stem} in {image_folder}, but the split names it; "
                "unpack the data set again"
            )
        if stem + mask_suffix not in masks:
            raise UserError(
                f"the image {images[stem]} has no mask: "
                f"there is no {mask_folder / stem}{mask_suffix}"
            )
        pairs.append((images[stem], masks[stem + mask_suffix]))
    return pairs


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file that are not blank; raise UserError if there is no file."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; unpack the data set again")
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def choose_folder(root: Path, candidates: Sequence[str], name: str) -> Path:
    """Return the first folder that exists below ``root``, or ``root`` if it is one of them."""
    for candidate in candidates:
        if (root / candidate).is_dir():
            return root / candidate
        if root.name == Path(candidate).name and root.is_dir():
            return root
    raise UserError(
        f"there is no {name} in {root}; give the folder that contains {' or '.join(candidates)} "
        "with --data-root"
    )


def choose_split(split: str, known: Sequence[str], name: str) -> str:
    """Return the split if the set has it; else raise UserError, which lists the splits."""
    if split not in known:
        raise UserError(f"{name} has no split {split!r}; its splits are {', '.join(known)}")
    return split


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; unpack the data set again")
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _open(path: Path, decode: bool = True) -> Image.Image:
    try:
        image = open_image(path)
        if decode:
            image.load()
    except (OSError, ValueError, SyntaxError) as problem:  # what decoders raise
        if is_passing(problem):
            raise
        reason = str(problem).replace(str(path), "the file") or type(problem).__name__
        if isinstance(problem, UnidentifiedImageError):
            reason = "not an image of a known format"
        raise UserError(f"cannot read {path} ({reason}); repair or remove it") from None
    return image
