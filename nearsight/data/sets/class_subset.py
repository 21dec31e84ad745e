"""Keep only the first classes of a data set, as ConViT keeps the first 100 of ImageNet."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nearsight.core import UserError
from nearsight.data.sets.dataset import Dataset, ImageSet, histogram, statistics
from nearsight.data.sets.image_folder import FolderImages


def images_of_first_classes(found: FolderImages, number: int) -> FolderImages:
    """Return the images of a folder's first ``number`` classes, in the order of their names."""
    _check(number, found.classes, str(found.folder))
    train, test = ([x for x in files if x[1] < number] for files in (found.train, found.test))
    return replace(found, classes=found.classes[:number], train=train, test=test)


def first_classes(dataset: Dataset, number: int) -> Dataset:
    """Return a decoded set's first classes, in memory, with the statistics of their images."""
    _check(number, dataset.classes, dataset.name)
    if number == len(dataset.classes):
        return dataset
    train, test = _of_classes(dataset.train, number), _of_classes(dataset.test, number)
    mean, std = statistics(histogram(train.images))
    digest = hashlib.sha256(f"{dataset.hash}, the first {number} classes".encode()).hexdigest()
    return replace(
        dataset, classes=dataset.classes[:number], train=train, test=test, mean=mean, std=std,
        hash=digest[:16],
    )  # fmt: skip


def _of_classes(images: ImageSet, number: int) -> ImageSet:
    rows = np.flatnonzero(images.labels < number)
    masks = None if images.masks is None else images.masks[rows]
    return ImageSet(images.images[rows], images.labels[rows], masks)


def _check(number: int, classes: Sequence[str], name: str) -> None:
    if number > len(classes):
        raise UserError(f"data.classes is {number}, but {name} has only {len(classes)} classes.")
