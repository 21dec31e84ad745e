"""Define a data set: pixels, labels and the statistics of its training images."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64, UInt8

from nearsight.core import UserError

if TYPE_CHECKING:
    Images = Any  # an array, or an object that is indexed like one
else:
    from nearsight.data.sets.image_files import ImageFiles

    Images = UInt8[np.ndarray, "n 3 h w"] | ImageFiles
Statistics = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True, repr=False)
class ImageSet:
    """Images with their labels: a split of a data set, or a piece of one."""

    images: Images  # uint8 [n, 3, h, w]
    labels: Int64[np.ndarray, " n"]
    masks: UInt8[np.ndarray, "n h w"] | None = None  # 1 on the object, else 0; only `shapes` has it

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"ImageSet of {len(self):,} images"

    def of_first_classes(self, number: int) -> ImageSet:
        """Return the images of the first ``number`` classes, in memory."""
        rows = np.flatnonzero(self.labels < number)
        masks = None if self.masks is None else self.masks[rows]
        return ImageSet(self.images[rows], self.labels[rows], masks)


@dataclass(frozen=True, repr=False)
class Dataset:
    """A data set whose arrays are read-only memory maps."""

    name: str  # "cifar100", ..., a registered name, or "folder:PATH"
    classes: tuple[str, ...]
    train: ImageSet  # the whole official training set, before the split into train and validation
    test: ImageSet
    mean: tuple[float, float, float]  # of the training images, where white is 1
    std: tuple[float, float, float]
    hash: str  # first 16 hex digits of the sha256 of pixels and labels
    origin: str  # "official", "not the official bytes", "generated", "registered" or "folder"
    notes: tuple[str, ...] = ()  # for the user, such as files that were ignored
    identity: str | None = None  # the hash of its files, for a registered or recognised set

    def __repr__(self) -> str:
        return (
            f"Dataset {self.name}: {len(self.train):,} training and {len(self.test):,} test images "
            f"of {len(self.classes):,} classes"
        )

    def of_first_classes(self, number: int) -> Dataset:
        """Return the data set with its first ``number`` classes, and the statistics of these.

        ConViT, for example, trains on the first 100 classes of ImageNet.

        Raises:
            UserError: If there are fewer classes.
        """
        classes = first_classes(self.classes, number, self.name)
        if classes == self.classes:
            return self
        train, test = (images.of_first_classes(number) for images in (self.train, self.test))
        mean, std = statistics(histogram(train.images))
        digest = hashlib.sha256(f"{self.hash}, the first {number} classes".encode()).hexdigest()
        return replace(
            self, classes=classes, train=train, test=test, mean=mean, std=std, hash=digest[:16]
        )


def first_classes(classes: tuple[str, ...], number: int, name: str) -> tuple[str, ...]:
    """Return the first ``number`` of the classes of the data set ``name``.

    Raises:
        UserError: If there are fewer.
    """
    if number > len(classes):
        raise UserError(f"data.classes is {number}, but {name} has only {len(classes)} classes")
    return classes[:number]


def histogram(images: UInt8[np.ndarray, "n 3 h w"]) -> Int64[np.ndarray, "3 256"]:
    """Count how often each channel has each of the 256 values."""
    channels = [np.bincount(images[:, channel].ravel(), minlength=256) for channel in range(3)]
    return np.stack(channels).astype(np.int64)


def statistics(counts: Int64[np.ndarray, "3 256"]) -> Statistics:
    """Compute mean and standard deviation per channel in 0..1 from a histogram.

    The sums are whole numbers, and only the final division and root are rounded, so every machine
    gets the same bits. The deviation of a constant channel is replaced by 1/255 (one grey level),
    so that one can divide by it.

    >>> counts = np.zeros((3, 256), np.int64)
    >>> counts[:, 0] = counts[:, 255] = 5
    >>> statistics(counts)
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    """
    means, deviations = [], []
    for channel in counts.tolist():
        number = sum(channel)
        total = sum(value * count for value, count in enumerate(channel))
        squares = sum(value * value * count for value, count in enumerate(channel))
        variance = Fraction(number * squares - total * total, (255 * number) ** 2)
        means.append(total / (255 * number))
        deviations.append(math.sqrt(variance) if variance else 1 / 255)
    return (means[0], means[1], means[2]), (deviations[0], deviations[1], deviations[2])
