"""Any folder of images: one folder per class.

``PATH/train/<class>/*`` with ``PATH/test/<class>/*`` or ``PATH/val/<class>/*``; or
``PATH/<class>/*`` alone, of which a stratified fifth becomes the test set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearsight.core import UserError
from nearsight.data.sets.cache import Decoding
from nearsight.data.sets.pixels import SUFFIXES, Labelled, Reader
from nearsight.data.sets.sources import files_key
from nearsight.data.sets.split import stratified_split
from nearsight.data.sets.tiny_imagenet import ANNOTATIONS

TEST_FRACTION = 0.2
TEST_SEED = 0


@dataclass(frozen=True)
class FolderImages:
    """The images of a folder, by split, with the numbers of their classes."""

    folder: Path
    classes: tuple[str, ...]
    train: list[Labelled]
    test: list[Labelled]
    notes: tuple[str, ...]

    @property
    def paths(self) -> list[Path]:
        return [path for path, _ in self.train + self.test]


def list_images(folder: Path) -> FolderImages:
    """List the images of a folder; UserError if its structure is not one of the above."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    if (folder / ANNOTATIONS).is_file():
        raise UserError(
            f"{folder} is Tiny-ImageNet, whose test labels are in a text file; "
            f"use --data tiny-imagenet --data-root {folder.parent}"
        )
    notes = []
    if (folder / "train").is_dir():
        part = next((name for name in ("test", "val") if (folder / name).is_dir()), None)
        if part is None:
            raise UserError(f"{folder} has train/ but neither test/ nor val/")
        classes = _classes(folder / "train")
        if unknown := sorted(set(_classes(folder / part)) - set(classes)):
            raise UserError(f"{folder / part / unknown[0]}: train/ has no class {unknown[0]!r}")
        train = _images(folder / "train", classes)
        test = _images(folder / part, _classes(folder / part), classes)
    else:
        classes = _classes(folder)
        images = _images(folder, classes)
        labels = np.array([label for _, label in images], np.int64)
        kept, held = stratified_split(labels, TEST_FRACTION, TEST_SEED)
        train, test = [images[i] for i in kept], [images[i] for i in held]
        notes.append(
            f"no train/ and test/: a stratified fifth, {len(test)} of {len(images)} images, "
            "is the test set"
        )
    if len(classes) < 2:
        raise UserError(f"{folder} has one class, {classes[0]!r}; expected at least two folders")
    if ignored := _num_other_files(folder, len(train) + len(test)):
        notes.append(f"ignored {ignored} files that are no images of a class")
    return FolderImages(folder, classes, train, test, tuple(notes))


def image_folder(found: FolderImages, image_size: int | None, skip_corrupt: bool) -> Decoding:
    """How to decode the images of a folder."""
    folder, train, test = found.folder, found.train, found.test
    reader = Reader(folder, size=image_size, skip_corrupt=skip_corrupt)
    return Decoding(
        name=f"folder:{folder}",
        source=f"{folder.resolve()} {image_size} {skip_corrupt}",
        key=files_key(folder, found.paths) + str(list(found.notes)),
        classes=found.classes,
        splits={"train": lambda: reader.pieces(train), "test": lambda: reader.pieces(test)},
        origin=lambda: "folder",
        notes=lambda: (*found.notes, *reader.notes()),
    )


def _visible(path: Path) -> bool:
    return not path.name.startswith(".")


def _classes(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the path of an image folder")
    names = (path.name for path in folder.iterdir() if path.is_dir() and _visible(path))
    classes = tuple(sorted(names))
    if not classes:
        raise UserError(f"{folder} is empty: expected one folder of images per class")
    return classes


def _images(
    folder: Path, names: tuple[str, ...], classes: tuple[str, ...] | None = None
) -> list[Labelled]:
    """The images below ``folder/<name>`` for every name; labels are indices into ``classes``."""
    found = []
    for name in names:
        paths = [path for path in sorted((folder / name).rglob("*")) if _is_image(path)]
        if not paths:
            raise UserError(f"{folder / name} holds no images ({', '.join(sorted(SUFFIXES))})")
        found += [(path, (classes or names).index(name)) for path in paths]
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and _visible(path) and path.is_file()


def _num_other_files(folder: Path, num_images: int) -> int:
    return sum(path.is_file() and _visible(path) for path in folder.rglob("*")) - num_images
