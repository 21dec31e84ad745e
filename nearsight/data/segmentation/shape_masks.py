"""Open `shapes` as a segmentation set: class 0 is the background, the others are the objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from nearsight.data.segmentation.segments import Mask, Segments, choose_split
from nearsight.data.sets import Dataset, load_dataset

SPLITS = {"train": "train", "val": "test", "test": "test"}


class ShapeSegments(Segments):
    """A split of `shapes`, from its decoded arrays."""

    def __init__(self, dataset: Dataset, split: str) -> None:
        self.name, self.split = "shapes", split
        self.classes = ("background", *dataset.classes)
        self._images = dataset.train if SPLITS[split] == "train" else dataset.test
        self._hash = dataset.hash

    def __len__(self) -> int:
        return len(self._images)

    def image(self, index: int) -> Image.Image:
        """Return an image in RGB."""
        return Image.fromarray(self._images.images[index].transpose(1, 2, 0).copy())

    def mask(self, index: int) -> Mask:
        """Return the class of every pixel: 0 for the background, else the object's class plus 1."""
        assert self._images.masks is not None
        on_object = self._images.masks[index].astype(bool)
        return np.where(on_object, self._images.labels[index] + 1, 0).astype(np.uint8)

    @property
    def identity(self) -> str:
        """Return the hash of the data set and the split."""
        return f"{self._hash}-{SPLITS[self.split]}"


def shape_masks(root: Path, split: str) -> ShapeSegments:
    """Open a split of `shapes`; ``val`` is its test set."""
    from nearsight.protocol import DataSettings

    choose_split(split, tuple(SPLITS), "shapes")
    return ShapeSegments(load_dataset(DataSettings(name="shapes"), root), split)
