"""Build the controls of every table, which show what scores are possible without learning.

random initialisation  the same architecture before any training
pixel statistics       mean and deviation of each colour in a patch (for a whole image also its
                       colours at 4x4 pixels)
position only          where a patch is, without anything of the image
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.evaluate.features.subject import Subject
from nearsight.evaluate.features.taps import Extractor, FeatureBatch, Tapped
from nearsight.models.layers import Grid

RANDOM_INITIALISATION = "random initialisation"
PIXEL_STATISTICS = "pixel statistics"
POSITION_ONLY = "position only"
CONTROLS = (RANDOM_INITIALISATION, PIXEL_STATISTICS, POSITION_ONLY)
THUMB = 4  # side, in pixels, of the reduced image that represents a whole image
FREQUENCIES = (1, 2, 4, 8)  # half waves across the image


class PixelStatistics(Extractor):
    """Mean and standard deviation of each colour inside every patch."""

    num_layers = 1

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def features(
        self, images: Float[Tensor, "image 3 h w"], layers: Sequence[int], place: str
    ) -> list[FeatureBatch]:
        """Return the same features for every layer: statistics of each patch's colours."""
        size = (self.grid.rows, self.grid.cols)
        mean = F.adaptive_avg_pool2d(images, size)
        square = F.adaptive_avg_pool2d(images.square(), size)
        deviation = (square - mean.square()).clamp(min=0).sqrt()
        patches = torch.cat([mean, deviation], 1).permute(0, 2, 3, 1)  # [image, row, col, 6]
        thumb = F.adaptive_avg_pool2d(images, (THUMB, THUMB)).flatten(1)
        whole = torch.cat([patches.mean((1, 2)), thumb], 1)
        return [FeatureBatch(patches, whole)] * len(layers)


class PositionOnly(Extractor):
    """Sines and cosines of the row and the column of every patch."""

    num_layers = 1

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        rows, cols = grid.rows, grid.cols
        places = grid.coordinates().view(rows, cols, 2)
        share = (places + 0.5) / torch.tensor([rows, cols])  # 0..1 across the image
        angles = share[..., None] * torch.pi * torch.tensor(FREQUENCIES)  # [row, col, axis, wave]
        self.waves = torch.cat([angles.sin(), angles.cos()], -1).flatten(2).float()

    def features(
        self, images: Float[Tensor, "image 3 h w"], layers: Sequence[int], place: str
    ) -> list[FeatureBatch]:
        """Return the same features for every layer and image: waves of the position."""
        patches = self.waves.expand(len(images), *self.waves.shape)
        return [FeatureBatch(patches, patches.mean((1, 2)))] * len(layers)


def control_subject(subject: Subject, control: str) -> Subject:
    """Return a control of a subject, for the same images but without anything learned.

    Raises:
        UserError: If the control is unknown.
    """
    if control == RANDOM_INITIALISATION:
        if subject.fresh is None:
            raise UserError(
                f"{subject.name} cannot be built with random weights; use --no-controls"
            )
        return replace(subject.fresh(), name=control, control=control)
    assert isinstance(subject.extractor, Tapped)
    kinds: dict[str, type[PixelStatistics] | type[PositionOnly]] = {
        PIXEL_STATISTICS: PixelStatistics, POSITION_ONLY: PositionOnly,
    }  # fmt: skip
    if control not in kinds:
        raise UserError(f"there is no control {control!r}; use one of {', '.join(CONTROLS)}")
    grid = subject.extractor.grid
    return replace(
        subject,
        name=control,
        extractor=kinds[control](grid),
        identity=f"{control} {grid}",
        model=None,
        locality=None,
        fresh=None,
        control=control,
        folder=None,
        notes=(),
    )
