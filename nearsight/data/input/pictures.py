"""Read a folder of images without labels: nested or flat, in any size.

Files are read in the order of their names, one batch ahead of the model. An image is identified by
its path below the folder and by the hash of its bytes.
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

NUM_PICTURES = 1000  # the number used by default
SEED = 0  # chooses the images
READERS = 4  # threads; decoding releases Python's lock
ORIENTATION = 0x0112  # the EXIF tag that says how the camera was held
TURNED = (5, 6, 7, 8)  # the values of this tag that swap height and width


def find_pictures(folder: Path) -> tuple[list[str], int]:
    """List the images below a folder, without hidden files.

    Returns:
        The sorted paths of the images relative to ``folder``, and the number of other files.

    Raises:
        UserError: If the folder does not exist or contains no image.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give a folder of images")
    visible = [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    names = sorted(path.as_posix() for path in visible if path.suffix.lower() in SUFFIXES)
    if not names:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        others = f", only {len(visible)} other files" if visible else ""
        raise UserError(f"{folder} contains no images ({kinds}){others}; give a folder of images")
    return names, len(visible) - len(names)


def chosen_pictures(names: Sequence[str], num_images: int | None, folder: Path) -> list[str]:
    """Choose ``num_images`` of the names with a fixed seed, and keep their order.

    By default, up to 1,000 are chosen. The choice is the same for every model that sees the folder,
    so models can be compared image by image.

    Raises:
        UserError: If there are fewer images than asked for, or fewer than two.
    """
    wanted = min(NUM_PICTURES, len(names)) if num_images is None else num_images
    if wanted > len(names):
        raise UserError(
            f"--num-images is {wanted:,}, but {folder} contains only {len(names):,} images"
        )
    if wanted < 2:
        raise UserError(
            f"an interval needs at least 2 images, but only {wanted} of {folder} would be "
            "measured; add images or raise --num-images"
        )
    chosen = draws.sample("measured images", SEED, length=len(names), num=wanted)
    return [names[index] for index in chosen.tolist()]


def readable_pictures(folder: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Decode every picture once, and return the names of those that can be read and of the others.

    Raises:
        UserError: If fewer than two can be read.
    """
    with ThreadPoolExecutor(READERS) as pool:
        good = dict(zip(names, pool.map(lambda name: _can_be_read(folder / name), names)))
    readable = [name for name in names if good[name]]
    if len(readable) < 2:
        raise UserError(
            f"only {len(readable)} of the {len(names)} images in {folder} can be read, but an "
            "interval needs at least 2; repair or add images"
        )
    return readable, [name for name in names if not good[name]]


def _can_be_read(path: Path) -> bool:
    try:
        with open_image(path) as opened:
            as_rgb(opened)
    except Exception as problem:  # decoders raise many kinds of errors
        if is_passing(problem):
            raise
        return False
    return True


def equal_size(folder: Path, names: Sequence[str]) -> tuple[int, int]:
    """Return the height and width that all images share.

    Raises:
        UserError: If two images differ in size.
    """
    first = _size(folder, names[0])
    for name in names[1:]:
        size = _size(folder, name)
        if size != first:
            raise UserError(
                f"--no-resize needs images of one size, but {folder} contains {names[0]} of "
                f"{first[0]}x{first[1]} and {name} of {size[0]}x{size[1]} pixels; "
                "leave out --no-resize"
            )
    return first


def _size(folder: Path, name: str) -> tuple[int, int]:
    """Read height and width from the file's header."""
    try:
        with open_image(folder / name) as image:
            width, height = image.size
            turned = image.getexif().get(ORIENTATION) in TURNED
    except Exception as problem:  # decoders raise many kinds of errors
        raise _unreadable(folder, name, problem) from None
    return (width, height) if turned else (height, width)


@dataclass
class PictureBatches:
    """Iterate over chosen images of a folder as batches of a model's input, as often as needed.

    The sha256 of every file is stored in ``digests`` when the file is read.
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
                    if len(waiting) == 2:  # read the next batch while the model works on this one
                        yield self._batch(waiting.pop(0))
                for rest in waiting:
                    yield self._batch(rest)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _batch(self, pictures: list[Future]) -> Tensor:
        pixels = torch.from_numpy(np.stack([picture.result() for picture in pictures]))
        return self.preprocessing.normalise(pixels.to(self.device))

    def _read(self, name: str) -> UInt8[np.ndarray, "3 h w"]:
        pixels, self.digests[name] = read_picture(self.folder, name, self.preprocessing)
        return pixels


def read_picture(
    folder: Path, name: str, preprocessing: Preprocessing
) -> tuple[UInt8[np.ndarray, "3 h w"], str]:
    """Read one image, and resize and crop it for the model.

    Returns:
        The pixels, and the sha256 of the file.

    Raises:
        UserError: If the file cannot be decoded.
    """
    try:
        content = (folder / name).read_bytes()
        with open_image(io.BytesIO(content)) as opened:
            image = as_rgb(opened)
        pixels = preprocessing.pixels(image)
    except Exception as problem:  # decoders raise many kinds of errors
        raise _unreadable(folder, name, problem) from None
    return pixels, hashlib.sha256(content).hexdigest()


def pictures_hash(names: Sequence[str], digests: dict[str, str]) -> str:
    """Return the first 16 hex digits of the sha256 over names and contents of the images."""
    lines = "".join(f"{name} {digests[name]}\n" for name in names)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()[:16]


def _unreadable(folder: Path, name: str, problem: Exception) -> UserError:
    """Return the error about an image that cannot be read; raise errors of the machine again."""
    if is_passing(problem):
        raise problem
    reason = str(problem) or type(problem).__name__
    if isinstance(problem, UnidentifiedImageError):
        reason = "not an image of a known format"
    return UserError(
        f"cannot read the image {folder / name} ({reason.splitlines()[0]}); repair or remove it, "
        "or leave such images out (measure --skip-corrupt)"
    )
