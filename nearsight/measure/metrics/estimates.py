"""A metric over images: per-image values, their mean and its 95 % interval, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import draws

NORMAL_QUANTILE = 1.959963984540054  # 97.5 % of a standard normal
RESAMPLES = 1000


@dataclass(frozen=True)
class Estimates:
    """``values``: one float64 array per layer, [image, head] or [image, head, ...]."""

    values: list[np.ndarray]

    @cached_property
    def _intervals(self) -> list[tuple[np.ndarray, ...]]:
        found = [normal_interval(torch.from_numpy(values)) for values in self.values]
        return [tuple(x.numpy() for x in layer) for layer in found]

    @property
    def mean(self) -> list[np.ndarray]:
        """Mean over images, one array per layer [head]."""
        return [np.asarray(values.mean(0)) for values in self.values]

    @property
    def low(self) -> list[np.ndarray]:
        """Lower end of the 95 % interval of the mean over images."""
        return [layer[1] for layer in self._intervals]

    @property
    def high(self) -> list[np.ndarray]:
        """Upper end of the 95 % interval of the mean over images."""
        return [layer[2] for layer in self._intervals]

    @property
    def sd(self) -> list[np.ndarray]:
        """Standard deviation between images (n - 1)."""
        return [layer[3] for layer in self._intervals]


def normal_interval(
    values: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, low, high and standard deviation (n - 1) over the first axis, that of the images.

    >>> [round(x.item(), 4) for x in normal_interval(torch.tensor([1.0, 2.0, 3.0]).double())]
    [2.0, 0.8684, 3.1316, 1.0]
    """
    if len(values) < 2:
        raise UserError(f"expected at least 2 images for an interval, got {len(values)}")
    mean, sd = values.mean(0), values.std(0)
    half = NORMAL_QUANTILE * sd / len(values) ** 0.5
    return mean, mean - half, mean + half, sd


def resample_counts(num_images: int, num_resamples: int = RESAMPLES, seed: int = 0) -> Tensor:
    """How often each image is drawn in each bootstrap resample, float64 [resample, image]."""
    resamples = torch.arange(num_resamples)
    drawn = draws.integers("bootstrap", seed, resamples, num=num_images, high=num_images)
    cells = (drawn + resamples[:, None] * num_images).flatten()
    counts = torch.bincount(cells, minlength=num_resamples * num_images)
    return counts.reshape(num_resamples, num_images).double()


def resampled_extremes(
    values: Float[Tensor, "image head"],
    counts: Float[Tensor, "resample image"],
    extreme: Callable[[Tensor], Tensor],
) -> Float[Tensor, " resample"]:
    """The extreme (smallest or largest) head mean of every bootstrap resample.

    The images are resampled, the head means taken anew and their extreme with them: it may be
    another head's each time, which an interval of the winning head alone would hide.
    """
    return extreme(counts @ values / len(values))


def bootstrap_interval(
    values: Float[Tensor, "image head"],
    counts: Float[Tensor, "resample image"],
    extreme: Callable[[Tensor], Tensor],
) -> tuple[float, float, float]:
    """The extreme head mean, with its 2.5 % and 97.5 % bootstrap percentiles."""
    extremes = resampled_extremes(values, counts, extreme)
    low, high = torch.quantile(extremes, torch.tensor([0.025, 0.975], dtype=extremes.dtype))
    return float(extreme(values.mean(0))), float(low), float(high)
