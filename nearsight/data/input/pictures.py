"""A folder of pictures to look at: nested or flat, any size, no labels.

Files are read batch by batch while the model works on the batch before; the order is that of their
names. A picture is known by its name below the folder and by the hash of its bytes.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import UnidentifiedImageError
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.input.preprocessing import Preprocessing
from nearsight.data.sets import SUFFIXES, as_rgb, is_passing, open_image

NUM_PICTURES = 1000  # looked at unless told otherwise
SEED = 0  # of the choice
READERS = 4  # threads; decoding releases Python's lock
ORIENTATION = 0x0112  # EXIF: how the camera was held
TURNED = (5, 6, 7, 8)  # values of it that swap height and width


def find_pictures(folder: Path) -> tuple[list[str], int]:
    """Names of all pictures below ``folder``, sorted, and how many other files there are."""
    if not folder.is_dir():
        raise UserError(f"expected a folder of images, but there is no folder {folder}")
    visible = [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    names = sorted(path.as_posix() for path in visible if path.suffix.lower() in SUFFIXES)
    if not names:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        found = f"only {len(visible)} of other kinds" if visible else "none"
        raise UserError(f"expected image files ({kinds}) in {folder}, found {found}")
    return names, len(visible) - len(names)


def chosen_pictures(names: Sequence[str], num_images: int | None, folder: Path) -> list[str]:
    """``num_images`` of the names, by default up to 1,000, by a fixed seed; the order is kept.

    The same for every model that looks at the folder, so that models can be compared in pairs.
    """
    wanted = min(NUM_PICTURES, len(names)) if num_images is None else num_images
    if wanted > len(names):
        raise UserError(
            f"expected {wanted:,} images in {folder}, as asked, got {len(names):,}; "
            "ask for fewer with --num-images"
        )
    if wanted < 2:
        raise UserError(f"expected at least 2 images in {folder} for an interval, got {wanted}")
    chosen = draws.sample("measured images", SEED, length=len(names), num=wanted)
    return [names[index] for index in chosen.tolist()]


def equal_size(folder: Path, names: Sequence[str]) -> tuple[int, int]:
    """Height and width of all pictures; UserError names two that differ."""
    first = _size(folder, names[0])
    for name in names[1:]:
        size = _size(folder, name)
        if size != first:
            raise UserError(
                f"expected images of one size without resizing, got {names[0]} of "
                f"{first[0]}x{first[1]} and {name} of {size[0]}x{size[1]} pixels in {folder}; "
                "leave out --no-resize"
            )
    return first


def _size(folder: Path, name: str) -> tuple[int, int]:
    """Height and width, from the file's header."""
    try:
        with open_image(folder / name) as image:
            width, height = image.size
            turned = image.getexif().get(ORIENTATION) in TURNED
    except Exception as problem:  # decoders raise all kinds
        raise _unreadable(folder, name, problem) from None
    return (width, height) if turned else (height, width)


@dataclass
class PictureBatches:
    """The chosen pictures as batches of a model's input; can be gone through more than once.

    ``digests`` fills as pictures are read: sha256 of every file.
    """

    folder: Path
    names: Sequence[str]
    preprocessing: Preprocessing
    batch_size: int
    device: str = "cpu"
    digests: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return -(-len(self.names) // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        starts = range(0, len(self.names), self.batch_size)
        with ThreadPoolExecutor(READERS) as pool:
            waiting: list[list[Future]] = []
            try:
                for start in starts:
                    part = self.names[start : start + self.batch_size]
                    waiting.append([pool.submit(self._read, name) for name in part])
                    if len(waiting) == 2:  # one is read while the other is looked at
                        yield self._batch(waiting.pop(0))
                for rest in waiting:
                    yield self._batch(rest)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _batch(self, pictures: list[Future]) -> Tensor:
        pixels = torch.from_numpy(np.stack([picture.result() for picture in pictures]))
        return self.preprocessing.normalised(pixels.to(self.device))

    def _read(self, name: str) -> UInt8[np.ndarray, "3 h w"]:
        pixels, self.digests[name] = read_picture(self.folder, name, self.preprocessing)
        return pixels


def read_picture(
    folder: Path, name: str, preprocessing: Preprocessing
) -> tuple[UInt8[np.ndarray, "3 h w"], str]:
    """The pixels of one picture as a model wants them, and the sha256 of its file."""
    try:
        content = (folder / name).read_bytes()
        with open_image(io.BytesIO(content)) as opened:
            image = as_rgb(opened)
        pixels = preprocessing.pixels(image)
    except Exception as problem:  # decoders raise all kinds
        raise _unreadable(folder, name, problem) from None
    return pixels, hashlib.sha256(content).hexdigest()


def pictures_hash(names: Sequence[str], digests: dict[str, str]) -> str:
    """First 16 digits of the sha256 over names and contents."""
    lines = "".join(f"{name} {digests[name]}\n" for name in names)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()[:16]


def _unreadable(folder: Path, name: str, problem: Exception) -> UserError:
    if is_passing(problem):
        raise problem
    reason = str(problem) or type(problem).__name__
    if isinstance(problem, UnidentifiedImageError):
        reason = "not an image of a known format"
    return UserError(
        f"cannot read the image {folder / name} ({reason.splitlines()[0]}); repair or remove it"
    )
