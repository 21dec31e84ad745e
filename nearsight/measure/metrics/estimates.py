"""A metric over images: values per image, their mean and its 95 % interval, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from nearsight.stats import t_interval


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Values of a metric for every image, with their mean over images and its 95 % interval.

    Attributes:
        values: One float64 array per layer, [image, head] or [image, head, ...].

    >>> estimates = Estimates([np.array([[0.2], [0.4]])])
    >>> round(float(estimates.mean[0][0]), 6)
    0.3
    """

    values: list[np.ndarray]

    def __eq__(self, other: object) -> bool:
        """Return whether all values are equal; NaN (no value) equals NaN."""
        if not isinstance(other, Estimates):
            return NotImplemented
        if len(self.values) != len(other.values):
            return False
        return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(self.values, other.values))

    def __repr__(self) -> str:
        sizes = [len(mean) if mean.ndim else 1 for mean in self.mean]
        return f"Estimates of {len(self.values[0])} images, heads by layer: {sizes}"

    @cached_property
    def _intervals(self) -> list[tuple[np.ndarray, ...]]:
        """Mean, both ends of its interval and standard deviation of every layer.

        For a single image, all but the mean are NaN.
        """
        if len(self.values[0]) < 2:
            none = [np.full_like(mean, np.nan) for mean in self.mean]
            return [(mean, x, x, x) for mean, x in zip(self.mean, none)]
        intervals = [t_interval(torch.from_numpy(values)) for values in self.values]
        return [tuple(x.numpy() for x in layer) for layer in intervals]

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
