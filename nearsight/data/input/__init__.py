"""Turn image files of any size into the input of a model: read, resize, crop and normalise."""

from __future__ import annotations

from nearsight.data.input.pictures import (
    SEED,
    PictureBatches,
    chosen_pictures,
    equal_size,
    find_pictures,
    pictures_hash,
    read_picture,
    readable_pictures,
)
from nearsight.data.input.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from nearsight.data.input.transform import Colour, InputTransform

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "SEED",
    "Colour",
    "InputTransform",
    "PictureBatches",
    "Preprocessing",
    "chosen_pictures",
    "equal_size",
    "find_pictures",
    "pictures_hash",
    "read_picture",
    "readable_pictures",
]
