"""Read any folder of images that has one folder per class.

Three layouts are possible: ``PATH/train/<class>/*`` with ``PATH/test/<class>/*`` or
``PATH/val/<class>/*``; only ``PATH/<class>/*``, of which a stratified fifth becomes the test set;
or one of the official layouts of ImageNet and mini-ImageNet (official_layouts.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nearsight.core import UserError
from nearsight.data.sets.cache import Decoding
from nearsight.data.sets.dataset import Dataset, ImageSet, first_classes
from nearsight.data.sets.image_files import ImageFiles
from nearsight.data.sets.official_layouts import official_images
from nearsight.data.sets.pixels import SUFFIXES, Labelled, Reader
from nearsight.data.sets.sources import files_key
from nearsight.data.sets.split import stratified_split
from nearsight.data.sets.tiny_imagenet import ANNOTATIONS

TEST_FRACTION = 0.2
TEST_SEED = 0
PUBLISHED_MEAN = (0.485, 0.456, 0.406)  # of ImageNet; as in data/input, a room above
PUBLISHED_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class FolderImages:
    """The images of a folder by split, each with the number of its class."""

    folder: Path
    classes: tuple[str, ...]
    train: list[Labelled]
    test: list[Labelled]
    notes: tuple[str, ...]

    @property
    def paths(self) -> list[Path]:
        """Return the paths of all images."""
        return [path for path, _ in self.train + self.test]

    def of_first_classes(self, number: int) -> FolderImages:
        """Keep the images of the first ``number`` classes, in the order of their names.

        Raises:
            UserError: If there are fewer classes.
        """
        classes = first_classes(self.classes, number, str(self.folder))
        train, test = ([x for x in files if x[1] < number] for files in (self.train, self.test))
        return replace(self, classes=classes, train=train, test=test)


def list_images(folder: Path) -> FolderImages:
    """List the images of a folder by split and class.

    Raises:
        UserError: If the folder has none of the layouts, or fewer than two classes.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the path of an image folder")
    if (folder / ANNOTATIONS).is_file():
        raise UserError(
            f"{folder} is Tiny-ImageNet, whose test labels are in a text file; "
            f"read it with --data tiny-imagenet --data-root {folder.parent}"
        )
    notes: list[str] = []
    official = official_images(folder)
    if official is not None and official.test:
        classes, train, test = official
    elif official is not None:
        classes = official.classes
        train, test = _hold_out(official.train, notes)
    elif (folder / "train").is_dir():
        part = next((name for name in ("test", "val") if (folder / name).is_dir()), None)
        if part is None:
            raise UserError(f"{folder} has train/ but neither test/ nor val/; add one of them")
        classes = _classes(folder / "train")
        if unknown := sorted(set(_classes(folder / part)) - set(classes)):
            raise UserError(
                f"{folder / part / unknown[0]} has no training images: there is no folder "
                f"{folder / 'train' / unknown[0]}; add it, or remove the class from {part}/"
            )
        train = _images(folder / "train", classes)
        test = _images(folder / part, _classes(folder / part), classes)
    else:
        classes = _classes(folder)
        train, test = _hold_out(_images(folder, classes), notes)
    if len(classes) < 2:
        raise UserError(
            f"{folder} has only one class, {classes[0]!r}; add a folder of images of another class"
        )
    ignored = 0 if official else _num_other_files(folder, len(train) + len(test))
    if ignored:
        notes.append(f"ignored {ignored} files that are not images in a class folder")
    return FolderImages(folder, classes, train, test, tuple(notes))


def _hold_out(images: list[Labelled], notes: list[str]) -> tuple[list[Labelled], list[Labelled]]:
    """Use a stratified fifth of the images as the test set, and add a note that says so."""
    labels = np.array([label for _, label in images], np.int64)
    kept, held = stratified_split(labels, TEST_FRACTION, TEST_SEED)
    notes.append(
        f"the folder has no train/ and test/, so a stratified fifth ({len(held)} of "
        f"{len(images)} images) is the test set"
    )
    return [images[i] for i in kept], [images[i] for i in held]


def image_folder(found: FolderImages, image_size: int | None, skip_corrupt: bool) -> Decoding:
    """Describe how to decode the images of a folder."""
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


def open_undecoded(found: FolderImages, size: int) -> Dataset:
    """Return the images of a folder as a data set that reads the files whenever they are used.

    The mean and deviation are those published for ImageNet, because computing those of the set
    would take a pass over all files. The hash covers names and sizes of the files.
    """
    lines = [
        f"{path.relative_to(found.folder)} {label} {path.stat().st_size}\n"
        for path, label in found.train + found.test
    ]
    digest = hashlib.sha256("".join([f"{size}\n", *lines]).encode(errors="surrogateescape"))
    train, test = (
        ImageSet(
            ImageFiles([path for path, _ in files], size),
            np.array([label for _, label in files], np.int64),
        )
        for files in (found.train, found.test)
    )
    return Dataset(
        name=f"folder:{found.folder}",
        classes=found.classes,
        train=train,
        test=test,
        mean=PUBLISHED_MEAN,
        std=PUBLISHED_STD,
        hash=digest.hexdigest()[:16],
        origin="folder",
        notes=(*found.notes, "images are read from their files and no decoded copy is kept"),
    )


def _visible(path: Path) -> bool:
    return not path.name.startswith(".")


def _classes(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the path of an image folder")
    names = (path.name for path in folder.iterdir() if path.is_dir() and _visible(path))
    classes = tuple(sorted(names))
    if not classes:
        raise UserError(f"{folder} contains no folders; it needs one folder of images per class")
    return classes


def _images(
    folder: Path, names: tuple[str, ...], classes: tuple[str, ...] | None = None
) -> list[Labelled]:
    """List the images below ``folder/<name>`` of each name; a label is an index of ``classes``."""
    labelled = []
    for name in names:
        paths = [path for path in sorted((folder / name).rglob("*")) if _is_image(path)]
        if not paths:
            raise UserError(
                f"{folder / name} contains no images ({', '.join(sorted(SUFFIXES))}); "
                "add images or remove the folder"
            )
        labelled += [(path, (classes or names).index(name)) for path in paths]
    return labelled


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and _visible(path) and path.is_file()


def _num_other_files(folder: Path, num_images: int) -> int:
    return sum(path.is_file() and _visible(path) for path in folder.rglob("*")) - num_images
