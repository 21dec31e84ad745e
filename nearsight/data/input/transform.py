"""Turn stored pixels into a model's input: normalise, then resize if the two sizes differ."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from nearsight.data.augment import normalise_pixels

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class InputTransform:
    """Convert uint8 images to the normalised float images that a model takes."""

    mean: Colour
    std: Colour
    image_size: tuple[int, int]
    dtype: torch.dtype = torch.float32

    def __call__(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 rows cols"]:
        """Normalise the images and resize them to ``image_size``."""
        return self.resize(normalise_pixels(images, self.mean, self.std, self.dtype))

    def resize(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 rows cols"]:
        """Resize images that are already normalised (bicubic, with antialiasing)."""
        if tuple(images.shape[-2:]) == self.image_size:
            return images
        return F.interpolate(images, self.image_size, mode="bicubic", antialias=True)
