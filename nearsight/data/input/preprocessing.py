"""Turn an image of any size into a model's input: resize, crop the centre, normalise.

The steps and their rounding are those of torchvision and timm, so that a model sees the same pixels
as when it was evaluated there. Every step is a field, which is written into the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from nearsight.core import UserError
from nearsight.data.augment import normalise_pixels
from nearsight.data.input.transform import Colour

IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)
MOST_PIXELS = 2**16  # of a side
INTERPOLATIONS = tuple(method.name.lower() for method in Image.Resampling)


@dataclass(frozen=True)
class Preprocessing:
    """How images are prepared for a model.

    ``resize`` and ``crop`` are (height, width), or None if images are used at their own size.
    """

    source: str  # where these settings come from, for example "timm's"
    resize: tuple[int, int] | None
    crop: tuple[int, int] | None
    keep_ratio: bool = True  # scale until the image covers ``resize``; False: squash it
    interpolation: str = "bicubic"
    mean: Colour = IMAGENET_MEAN
    std: Colour = IMAGENET_STD
    doubt: str | None = None  # why the weights may have been trained with other settings

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(
                f"there is no interpolation {self.interpolation!r}; "
                f"choose one of {', '.join(INTERPOLATIONS)}"
            )
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            if size is not None and not all(1 <= side <= MOST_PIXELS for side in size):
                raise UserError(
                    f"{self.source}: {name} is {size[0]}x{size[1]} pixels, but a side must have 1 "
                    f"to {MOST_PIXELS:,} pixels"
                )
        numbers = (*self.mean, *self.std)
        three = len(self.mean) == len(self.std) == 3
        if not three or not all(map(math.isfinite, numbers)) or min(self.std) <= 0:
            raise UserError(
                f"{self.source}: mean {self.mean} and deviation {self.std} cannot be used to "
                "normalise images; they must be finite, and the deviation above 0"
            )

    @classmethod
    def from_crop_share(
        cls, source: str, size: tuple[int, int], crop_pct: float, **fields: Any
    ) -> Preprocessing:
        """Make a preprocessing whose crop keeps the share ``crop_pct`` of each resized side.

        >>> Preprocessing.from_crop_share("ours", (224, 320), 0.9).resize
        (248, 355)
        """
        height, width = (math.floor(side / crop_pct) for side in size)
        return cls(source, (height, width), size, **fields)

    def of_size(self, size: tuple[int, int]) -> Preprocessing:
        """Return the same preprocessing for another crop size; ``resize`` changes in proportion.

        >>> Preprocessing("timm's", (256, 256), (224, 224)).of_size((112, 168)).resize
        (128, 192)
        """
        if self.crop is None or self.resize is None:
            return replace(self, resize=size, crop=size)
        sides = [round(new * old / crop) for new, old, crop in zip(size, self.resize, self.crop)]
        return replace(self, resize=(sides[0], sides[1]), crop=size)

    def without_resizing(self) -> Preprocessing:
        """Return the same mean and deviation without resize and crop, for prepared images."""
        return replace(self, resize=None, crop=None)

    def pixels(self, image: Image.Image) -> UInt8[np.ndarray, "3 h w"]:
        """Resize and crop an RGB image."""
        if self.resize is not None:
            size = self._covering(image.size) if self.keep_ratio else self.resize
            image = image.resize(size[::-1], Image.Resampling[self.interpolation.upper()])
        if self.crop is not None:
            height, width = self.crop
            top = round((image.height - height) / 2.0)
            left = round((image.width - width) / 2.0)
            image = image.crop((left, top, left + width, top + height))
        return np.asarray(image).transpose(2, 0, 1)

    def _covering(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the smallest height and width that cover ``resize``, rounded down."""
        assert self.resize is not None
        (width, height), (rows, cols) = size, self.resize
        if rows * width <= cols * height:  # the width fits exactly, and the height is larger
            return int(cols * height / width), cols
        return rows, int(rows * width / height)

    def normalise(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 h w"]:
        """Convert bytes to floats and normalise each channel by mean and deviation."""
        return normalise_pixels(images, self.mean, self.std)

    def facts(self) -> dict[str, Any]:
        """Return the settings in the form of the entry ``preprocessing`` of a result file."""
        return {
            "source": self.source,
            "resize": list(self.resize) if self.resize else None,
            "crop": list(self.crop) if self.crop else None,
            "keep_ratio": self.keep_ratio,
            "interpolation": self.interpolation if self.resize else None,
            "mean": list(self.mean),
            "std": list(self.std),
            "doubt": self.doubt,
            "text": self.text(),
        }

    def text(self) -> str:
        """Describe the preprocessing in words.

        >>> Preprocessing.from_crop_share("timm's", (224, 224), 0.9).text()
        "timm's: short side to 248 (bicubic), middle 224x224"
        """
        source = f"{self.source} (not certain: {self.doubt})" if self.doubt else self.source
        if self.resize is None:
            return f"none (--no-resize); mean and deviation: {source}"
        rows, cols = self.resize
        if not self.keep_ratio:
            way = f"squashed to {rows}x{cols}"
        else:
            way = f"short side to {rows}" if rows == cols else f"scaled to cover {rows}x{cols}"
        middle = f", middle {self.crop[0]}x{self.crop[1]}" if self.crop else ""
        return f"{source}: {way} ({self.interpolation}){middle}"
