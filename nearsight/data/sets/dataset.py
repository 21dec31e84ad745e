"""A decoded data set: pixels, labels and the statistics of its training images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64, UInt8

if TYPE_CHECKING:
    Images = Any  # an array, or what is indexed like one
else:
    from nearsight.data.sets.image_files import ImageFiles

    Images = UInt8[np.ndarray, "n 3 h w"] | ImageFiles
Statistics = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels: a split of a data set, or a piece of one."""

    images: Images  # uint8 [n, 3, h, w]
    labels: Int64[np.ndarray, " n"]
    masks: UInt8[np.ndarray, "n h w"] | None = None  # 1 on the object, else 0; only `shapes` has it

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A data set whose arrays are read-only memory maps."""

    name: str  # "cifar100", ..., a registered name, or "folder:PATH"
    classes: tuple[str, ...]
    train: ImageSet  # the whole official training set, before the split into train and validation
    test: ImageSet
    mean: tuple[float, float, float]  # of the training set, where white is 1
    std: tuple[float, float, float]
    hash: str  # first 16 hex digits of the sha256 of pixels and labels
    origin: str  # "official", "not the official bytes", "generated", "registered" or "folder"
    notes: tuple[str, ...] = ()  # what the user should know: files ignored, images skipped
    identity: str | None = None  # the hash of its files, for a registered or recognised set


def histogram(images: UInt8[np.ndarray, "n 3 h w"]) -> Int64[np.ndarray, "3 256"]:
    """Count how often each channel has each of the 256 values."""
    channels = [np.bincount(images[:, channel].ravel(), minlength=256) for channel in range(3)]
    return np.stack(channels).astype(np.int64)


def statistics(counts: Int64[np.ndarray, "3 256"]) -> Statistics:
    """Compute mean and standard deviation per channel in 0..1 from a histogram.

    The sums are whole numbers and only the last division and root round, so every machine gets the
    same bits. A channel that never changes gets 1/255 (one grey level), so that one can divide by
    it.

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
