"""Read image files into pixels, and report the files that cannot be read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from nearsight.core import UserError

if TYPE_CHECKING:
    from nearsight.data.sets.dataset import ImageSet

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # Pillow reads them on its own
IMAGES_PER_PIECE = 1024

Labelled = tuple[Path, int]


@dataclass
class Reader:
    """Read the image files of one data set.

    If ``size`` is given, the middle square of each image is resized to it. Otherwise all images
    must have the size of the first one.
    """

    folder: Path  # messages name files relative to it
    size: int | None
    skip_corrupt: bool
    num_files: int = 0
    corrupt: list[str] = field(default_factory=list)
    _shape: tuple[int, ...] | None = None

    def pieces(self, files: Sequence[Labelled]) -> Iterator[ImageSet]:
        """Yield images and labels of ``files`` in order, without the corrupt ones."""
        from nearsight.data.sets.dataset import ImageSet  # dataset imports this module

        with ThreadPoolExecutor() as pool:
            for start in range(0, len(files), IMAGES_PER_PIECE):
                part = files[start : start + IMAGES_PER_PIECE]
                images, labels = [], []
                read = pool.map(self._read, (path for path, _ in part))
                for (path, label), pixels in zip(part, read):
                    self.num_files += 1
                    if isinstance(pixels, str):
                        self.corrupt.append(f"{path.relative_to(self.folder)} ({pixels})")
                        continue
                    self._check_shape(path, pixels)
                    images.append(pixels)
                    labels.append(label)
                if images:
                    yield ImageSet(np.stack(images), np.array(labels, np.int64))

    def notes(self) -> tuple[str, ...]:
        """Return a note for the user if corrupt images were skipped.

        Raises:
            UserError: If there are corrupt images and ``skip_corrupt`` is not set.
        """
        if not self.corrupt:
            return ()
        number = f"{len(self.corrupt)} of {self.num_files} images"
        names = f"{'; '.join(self.corrupt[:3])}{'; ...' if len(self.corrupt) > 3 else ''}"
        if self.skip_corrupt:
            return (f"skipped {number} that cannot be read: {names}",)
        raise UserError(
            f"{number} in {self.folder} cannot be read: {names}; "
            "repair or remove them, or skip them with --set data.skip_corrupt=true"
        )

    def _read(self, path: Path) -> UInt8[np.ndarray, "3 h w"] | str:
        """Return the pixels, or the reason why the file is damaged.

        Errors of the machine, such as too many open files, are raised instead: they say nothing
        about the file, and a data set without it must not be kept.
        """
        try:
            return read_pixels(path, self.size)
        except Exception as problem:  # decoders raise many kinds of errors
            if is_passing(problem):
                raise
            return str(problem).replace(str(path), "the file") or type(problem).__name__

    def _check_shape(self, path: Path, pixels: np.ndarray) -> None:
        self._shape = self._shape or pixels.shape
        if pixels.shape != self._shape:
            raise UserError(
                f"{path} is {pixels.shape[2]} x {pixels.shape[1]} pixels, but the images before "
                f"it are {self._shape[2]} x {self._shape[1]}; resize the images of a folder to one "
                "size with --set data.image_size=N"
            )


def read_pixels(path: Path, size: int | None = None) -> UInt8[np.ndarray, "3 h w"]:
    """Read the RGB pixels of an image file; ``as_rgb`` turns it upright and converts its mode."""
    with open_image(path) as opened:
        image = as_rgb(opened)
    if size is not None and image.size != (size, size):
        image = _middle(image, size)
    return np.asarray(image).transpose(2, 0, 1)


def open_image(source: Path | io.BytesIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an image file of a known format, whatever the ending of its name.

    Other formats are not opened, because Pillow starts programs for some of them (Ghostscript for
    EPS).
    """
    return Image.open(source, formats=formats)


def is_passing(problem: Exception) -> bool:
    """Return whether an error comes from the machine, and not from the content of a file."""
    return isinstance(problem, MemoryError) or getattr(problem, "errno", None) is not None


def as_rgb(image: Image.Image) -> Image.Image:
    """Turn an image upright by its EXIF data, and convert it to 8 bits of red, green and blue.

    Grey becomes RGB, 16 bits become 8, and transparency is removed.

    Raises:
        UserError: If the pixels are floating-point numbers, or integers of an unknown scale.
    """
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise UserError("its pixels are floating-point numbers; save it with 8 bits per channel")
    if image.mode.startswith("I"):
        image = _eight_bits(np.asarray(image))
    elif "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> Image.Image:
    """Scale integers of 16 bits to 8 bits, after checking that they use the range of 16 bits."""
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535 or 0 < high < 256:
        raise UserError(
            f"its pixels are integers from {low} to {high}, which is neither 8 nor 16 bits; save "
            "it with 8 bits per channel"
        )
    return Image.fromarray((values >> 8).astype(np.uint8))


def _middle(image: Image.Image, size: int) -> Image.Image:
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    box = (left, top, left + short, top + short)
    return image.crop(box).resize((size, size), Image.Resampling.BICUBIC)
