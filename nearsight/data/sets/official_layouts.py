"""Read ImageNet and mini-ImageNet in the layouts in which their authors distribute them.

ImageNet (ILSVRC 2012) has its training images in a folder per class, below ``train``,
``ILSVRC2012_img_train`` or ``ILSVRC/Data/CLS-LOC/train``, and all validation images in one folder
beside it. The classes of the validation images are read from the first of these that exists:
Kaggle's ``LOC_val_solution.csv``, the XML files in ``Annotations/CLS-LOC/val``, or the development
kit (``ILSVRC2012_validation_ground_truth.txt`` with ``meta.mat``).

mini-ImageNet has all images in ``images/``, and the files ``train.csv``, ``val.csv`` and
``test.csv`` (Ravi & Larochelle 2017), each of which lists the images of some classes. Here all 100
classes are used together.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nearsight.core import UserError
from nearsight.data.sets.pixels import SUFFIXES, Labelled

PLACES = (  # where ImageNet's training and validation images are, below the given folder
    ("train", "val"),
    ("ILSVRC2012_img_train", "ILSVRC2012_img_val"),
    ("Data/CLS-LOC/train", "Data/CLS-LOC/val"),
    ("ILSVRC/Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/val"),
)
SOLUTION = "LOC_val_solution.csv"
BOXES = ("Annotations/CLS-LOC/val", "ILSVRC/Annotations/CLS-LOC/val")
TRUTH, META = "ILSVRC2012_validation_ground_truth.txt", "meta.mat"
KITS = ("", "data", "ILSVRC2012_devkit_t12/data")
NAME = re.compile(r"<name>\s*(\w+)\s*</name>")
LISTS = ("train.csv", "val.csv", "test.csv")  # of mini-ImageNet


class Listed(NamedTuple):
    """The images of a set by split; if ``test`` is empty, the caller holds out other images."""

    classes: tuple[str, ...]
    train: list[Labelled]
    test: list[Labelled]


def official_images(folder: Path) -> Listed | None:
    """List the images of a folder in one of these layouts; return None if it has another one.

    Raises:
        UserError: If a list of labels is missing, malformed, or does not fit the images.
    """
    if (folder / "images").is_dir() and all((folder / name).is_file() for name in LISTS):
        return _mini_imagenet(folder)
    for train, val in PLACES:
        if (folder / train).is_dir() and (folder / val).is_dir():
            return _imagenet(folder, folder / train, folder / val)
    return None


def _imagenet(folder: Path, train: Path, val: Path) -> Listed | None:
    names = sorted(path.name for path in val.iterdir() if not path.name.startswith("."))
    flat = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
    classes = tuple(sorted(x.name for x in train.iterdir() if x.is_dir() and x.name[0] != "."))
    numbers = {name: number for number, name in enumerate(classes)}
    training = [(path, numbers[name]) for name in classes for path in _images_in(train / name)]
    if any((val / name).is_dir() for name in names):  # sorted into classes by a script
        if train.parent == folder and train.name == "train":
            return None
        sorted_out = [
            (path, _number(name, numbers, val / name)) for name in names
            if (val / name).is_dir() for path in _images_in(val / name)
        ]  # fmt: skip
        return Listed(classes, training, sorted_out)
    labels = _validation_labels(folder, val, flat)
    if missing := [name for name in flat if Path(name).stem not in labels]:
        raise UserError(
            f"{val / missing[0]} has no label in the lists of {folder}; remove the image, or "
            "unpack the lists again"
        )
    test = [(val / name, _number(labels[Path(name).stem], numbers, val / name)) for name in flat]
    return Listed(classes, training, test)


def _validation_labels(folder: Path, val: Path, images: list[str]) -> dict[str, str]:
    """Return the class of every validation image by the name of the image without its ending."""
    if (folder / SOLUTION).is_file():
        rows = _rows(folder / SOLUTION, ("ImageId", "PredictionString"))
        return {image: boxes.split()[0] for image, boxes in rows if boxes.split()}
    for place in BOXES:
        if (folder / place).is_dir():
            boxes = sorted((folder / place).glob("*.xml"))
            return {path.stem: _class_in_xml(path) for path in boxes}
    for place in KITS:
        if (folder / place / TRUTH).is_file():
            return _read_kit(folder / place, images)
    raise UserError(
        f"{val} has all images in one folder, and no file says their classes; put one of these "
        f"into {folder}: {SOLUTION}, {BOXES[0]}, {KITS[-1]}; or sort the images into a folder for "
        "each class"
    )


def _class_in_xml(path: Path) -> str:
    match = NAME.search(path.read_text())
    if match is None:
        raise UserError(f"{path} contains no <name> of a class; unpack the annotations again")
    return match.group(1)


def _read_kit(kit: Path, images: list[str]) -> dict[str, str]:
    """Return the class of every validation image from the development kit.

    The kit lists the numbers of the classes in the order of the images.
    """
    from scipy.io import loadmat

    if not (kit / META).is_file():
        raise UserError(
            f"{kit / TRUTH} needs {META} beside it, which names the classes; "
            "unpack the development kit again"
        )
    wnids = {
        int(each["ILSVRC2012_ID"].item()): str(each["WNID"].item())
        for each in loadmat(kit / META)["synsets"].ravel()
    }
    words = (kit / TRUTH).read_text().split()
    if len(words) != len(images):
        raise UserError(
            f"{kit / TRUTH} has {len(words)} lines, but there are {len(images)} validation images; "
            "unpack the images and the development kit again"
        )
    return {Path(name).stem: wnids.get(int(word), word) for name, word in zip(images, words)}


def _mini_imagenet(folder: Path) -> Listed:
    rows = [
        (row, folder / name)
        for name in LISTS
        for row in _rows(folder / name, ("filename", "label"))
    ]
    classes = tuple(sorted({label for (_, label), _ in rows}))
    numbers = {name: number for number, name in enumerate(classes)}
    images = []
    for (name, label), source in rows:
        path = folder / "images" / name
        if not path.is_file():
            raise UserError(f"{source} lists {name}, but there is no {path}; add the image")
        images.append((path, numbers[label]))
    return Listed(classes, sorted(images, key=lambda each: (each[1], each[0])), [])


def _rows(path: Path, columns: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield two columns of a CSV file, whose first line names the columns."""
    with path.open(newline="") as handle:
        reader = csv.DictReader(handle)
        if not set(columns) <= set(reader.fieldnames or ()):
            raise UserError(
                f"line 1 of {path} does not name the columns {' and '.join(columns)}; add the names"
            )
        for row in reader:
            yield row[columns[0]] or "", row[columns[1]] or ""


def _images_in(folder: Path) -> list[Path]:
    images = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    ]
    if not images:
        raise UserError(
            f"{folder} contains no images ({', '.join(sorted(SUFFIXES))}); "
            "add images or remove the folder"
        )
    return images


def _number(name: str, numbers: dict[str, int], path: Path) -> int:
    if name not in numbers:
        raise UserError(
            f"{path} is of class {name!r}, which has no training images; add them or remove it"
        )
    return numbers[name]
