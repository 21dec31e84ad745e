"""A metric over images: per-image values, their mean and its 95 % interval, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from nearsight.measure.profile.interval import normal_interval


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
