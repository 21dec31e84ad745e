"""The images of an evaluation with their labels or masks, and how they are prepared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8
from PIL import Image

from nearsight.core import UserError, expand_path
from nearsight.data import open_segmentation
from nearsight.data.input import Preprocessing
from nearsight.data.sets import SUFFIXES, data_root, dataset_name, load_dataset
from nearsight.protocol import DataSettings


@dataclass(frozen=True)
class Split:
    """Chosen images of a data set; ``labels`` for classification, ``masks`` for segmentation."""

    data: str  # name of the data set
    name: str  # "train" or "val"
    identity: str  # equal for two splits only if they have the same images
    names: tuple[str, ...]  # of the images
    classes: tuple[str, ...]
    image: Callable[[int], Image.Image]  # reads an image, given its number
    labels: Int64[np.ndarray, " image"] | None = None
    masks: Callable[[int], np.ndarray] | None = None  # reads a mask, given the image's number
    prepared_size: tuple[int, int] | None = None  # the size to which images were already cropped

    def __len__(self) -> int:
        return len(self.names)

    def mask(self, number: int) -> np.ndarray:
        """Return the class of every pixel of an image, or VOID for pixels without a label."""
        assert self.masks is not None
        return self.masks(number)

    def part(self, chosen: np.ndarray, name: str) -> Split:
        """Return some of the images as a new split."""
        image, masks = self.image, self.masks
        return Split(
            self.data,
            name,
            _digest(self.identity, chosen),
            tuple(self.names[i] for i in chosen),
            self.classes,
            lambda i: image(int(chosen[i])),
            None if self.labels is None else self.labels[chosen],
            None if masks is None else (lambda i: masks(int(chosen[i]))),
        )


def spread(num: int, wanted: int | None) -> np.ndarray:
    """Return ``wanted`` positions among ``num``, at equal steps; all of them if it is None.

    >>> spread(1464, 366)[:3].tolist(), len(spread(1449, 207))
    ([0, 4, 8], 207)
    """
    if wanted is None:
        return np.arange(num)
    if not 1 <= wanted <= num:
        raise UserError(
            f"{wanted:,} images were requested, but the split has only {num:,}; ask for fewer"
        )
    return np.arange(wanted) * num // wanted


def open_masks(data: str, root: Path | None, split: str, num: int | None = None) -> Split:
    """Open a data set with masks.

    Args:
        data: A name, or the path of a folder of images and masks.
        root: The folder of data sets.
        split: ``train`` or ``val``.
        num: Use this many of its images, at equal steps; None for all.
    """
    found = open_segmentation(data, root, split)
    chosen = spread(len(found), num)
    return Split(
        data=found.name,
        name=split,
        identity=_digest(f"{found.identity} {split}", chosen),
        names=tuple(str(i) for i in chosen),
        classes=tuple(found.classes),
        image=lambda i: found.image(int(chosen[i])),
        masks=lambda i: found.mask(int(chosen[i])),
    )


def open_labels(data: str, root: Path | None, split: str, num: int | None = None) -> Split:
    """Open a data set with one label for each image; ``val`` is its test set.

    The images are decoded at the size that the set is stored in. A folder whose files are named by
    the number of their class (``0000.webp``) has no training images.
    """
    folder = data_root(root) / data if "/" not in data else expand_path(data)
    if numbered := _numbered_files(folder):
        return _open_numbered(folder, numbered, split, num)
    dataset = load_dataset(DataSettings(name=dataset_name(data, root)), root)
    images = dataset.train if split == "train" else dataset.test
    chosen = spread(len(images), num)
    pixels = images.images
    return Split(
        data=dataset.name,
        name=split,
        identity=_digest(f"{dataset.hash} {split}", chosen),
        names=tuple(str(i) for i in chosen),
        classes=dataset.classes,
        image=lambda i: Image.fromarray(pixels[int(chosen[i])].transpose(1, 2, 0)),
        labels=np.asarray(images.labels)[chosen],
    )


def _numbered_files(folder: Path) -> dict[Path, int]:
    """Return the images of a folder with the numbers that are their names.

    The result is empty if the name of some image is not a number.
    """
    if not folder.is_dir():
        return {}
    files = sorted(x for x in folder.iterdir() if x.suffix.lower() in SUFFIXES)
    if not all(x.stem.isdecimal() for x in files):
        return {}
    return {path: int(path.stem) for path in files}


def _open_numbered(folder: Path, files: dict[Path, int], split: str, num: int | None) -> Split:
    if split != "val":
        raise UserError(
            f"{folder} has images to score but no training images; use it with --task occlusion"
        )
    chosen = spread(len(files), num)
    paths, labels = list(files), np.array(list(files.values()))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
    with Image.open(paths[0]) as first:
        width, height = first.size

    def image(number: int) -> Image.Image:
        with Image.open(paths[int(chosen[number])]) as found:
            return found.convert("RGB")

    return Split(
        data=folder.name,
        name=split,
        identity=_digest(digest.hexdigest(), chosen),
        names=tuple(paths[i].stem for i in chosen),
        classes=tuple(str(i) for i in range(int(labels.max()) + 1)),
        image=image,
        labels=labels[chosen],
        prepared_size=(height, width),
    )


@dataclass(frozen=True)
class Preparation:
    """The steps from an image to a model's input: resize, mirror, normalise."""

    steps: Preprocessing
    mirrored: bool = False

    def pixels(self, image: Image.Image) -> UInt8[np.ndarray, "3 h w"]:
        """Return the pixels of an image before they are normalised."""
        found = self.steps.pixels(image)
        return found[:, :, ::-1] if self.mirrored else found

    def facts(self) -> dict[str, Any]:
        """Return everything that determines the result, for the key of a cache."""
        facts = self.steps.facts()
        kept = ("resize", "crop", "keep_ratio", "interpolation", "mean", "std")
        return {name: facts[name] for name in kept} | {"mirrored": self.mirrored}


def resize_labels(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the label of the pixel nearest to the centre of every new pixel.

    >>> resize_labels(np.array([[1, 2, 3, 4]]), (2, 2)).tolist()
    [[2, 4], [2, 4]]
    """
    rows, cols = (
        ((np.arange(new) + 0.5) * old / new).astype(np.int64) for old, new in zip(mask.shape, size)
    )
    return mask[rows[:, None], cols]


def _digest(text: str, chosen: np.ndarray) -> str:
    return hashlib.sha256(text.encode() + chosen.astype("<i8").tobytes()).hexdigest()[:16]
