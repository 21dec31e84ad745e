"""Read what GAug has learned: the standard deviations and strengths of its Gaussians, by layer.

Figure 6 of LocAt (arXiv 2603.04892) shows them. Before every forward of a ``Gaussian``, a hook asks
it for the widths that it is about to use, so that nothing must be stored inside its forward. A
standard deviation is the root of a variance, in patches of the current grid (the variance is
scaled if that is not the initial grid). Patches that only pad a window do not count. The numbers of
all images, heads, patches and both axes are taken together.

A standard deviation is *near a bound* if it is within 5 % of its range from 0 or from the largest
possible value. The range is that of the standard deviation and not of the variance, in which even
the published start (a standard deviation of 1 patch) would count as near 0: on 14x14 patches it is
0.5 % of the range of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.layers import Grid
from nearsight.models.parts.distribution import METHOD, PERCENTILES, Distribution
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.read_out import Placement, ReadOut, SeenCall

MARGIN = 0.05  # share of the range that counts as near a bound


@dataclass
class LayerWidths:
    """The Gaussians of one layer: standard deviations in patches, and strengths alpha."""

    name: str  # name of the attention module
    grid: Grid  # grid of the image, or of a window
    largest: float | None  # bound of the standard deviation; None if the deviation is not learned
    deviation: Distribution = field(default_factory=Distribution)
    strength: Distribution = field(default_factory=Distribution)
    num_near: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def near_bounds(self) -> tuple[float, float] | None:
        """Shares of the standard deviations that are near 0 and near the largest."""
        if self.largest is None:
            return None
        low, high = self.num_near / self.deviation.counts.sum()
        return float(low), float(high)

    def add(
        self, deviation: Float[Tensor, "image number"], strength: Float[Tensor, "image patch"]
    ) -> None:
        """Add the standard deviations and strengths of some more images."""
        if not bool(deviation.isfinite().all() and strength.isfinite().all()):
            raise UserError(
                f"NaN in the Gaussians of layer {self.name}, so the weights of the model are "
                "damaged; load them again or use an earlier checkpoint"
            )
        self.deviation.add(deviation)
        self.strength.add(strength)
        if self.largest is not None:
            low, high = MARGIN * self.largest, (1 - MARGIN) * self.largest
            self.num_near += [int((deviation < low).sum()), int((deviation > high).sum())]


class WidthReadOut(ReadOut[LayerWidths]):
    """Collect the widths of every Gaussian that takes part in an attention call."""

    key = "gaussian"
    title = "GAug"
    added_by = "add_locat(model)"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.gaussians = [x for x in model.modules() if isinstance(x, Gaussian)]
        self._asked: dict[nn.Module, tuple[Tensor, Tensor, Grid]] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> WidthReadOut:
        self._handles = [
            x.register_forward_pre_hook(self._ask, with_kwargs=True) for x in self.gaussians
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def is_present(self) -> bool:
        """Whether the model has Gaussians."""
        return bool(self.gaussians)

    def _ask(self, gaussian: Any, args: tuple, kwargs: dict) -> None:
        """Remember the widths that a Gaussian is about to use."""
        with torch.no_grad():
            grid = kwargs["grid"] if "grid" in kwargs else args[-1]
            self._asked[gaussian] = (*gaussian.widths(*args, **kwargs), grid)

    def add(self, layer: int, call: SeenCall, layout: Placement) -> None:
        """Add the widths that a layer's Gaussians had in the call that was just seen."""
        gaussian: Any = getattr(call.path[-1].module, "gaug", None)
        if gaussian not in self._asked:
            return
        variance, strength, grid = self._asked.pop(gaussian)
        if layer not in self.layers:
            largest = None if gaussian.log_var is None else largest_deviation(gaussian, grid)
            self.layers[layer] = LayerWidths(call.name, grid, largest)
        self.layers[layer].add(
            *(drop_padding(x, layout) for x in (variance.sqrt(), strength[..., None]))
        )

    @classmethod
    def merge(cls, shares: Sequence[LayerWidths]) -> LayerWidths:
        """Combine what several processes measured in a layer."""
        whole = LayerWidths(shares[0].name, shares[0].grid, shares[0].largest)
        whole.num_near = np.sum([share.num_near for share in shares], axis=0)
        whole.deviation = Distribution.merge([share.deviation for share in shares])
        whole.strength = Distribution.merge([share.strength for share in shares])
        return whole

    @classmethod
    def layer_contents(cls, layer: LayerWidths) -> dict[str, Any]:
        """Return what measure.json records about a layer."""
        return {
            "grid": [layer.grid.rows, layer.grid.cols],
            "largest": layer.largest,
            "near_bounds": layer.near_bounds,
            "deviation": layer.deviation.contents(),
            "strength": layer.strength.contents(),
        }

    @classmethod
    def contents(cls, layers: Mapping[int, LayerWidths]) -> dict[str, Any]:
        """Return what measure.json records about all layers together."""
        return {"percentiles": list(PERCENTILES), "near_bounds": MARGIN, "method": METHOD}


def drop_padding(
    values: Float[Tensor, "batch head patch axis"], layout: Placement
) -> Float[Tensor, "image number"]:
    """Return the numbers of each image, without patches that only pad a window."""
    windows = values.unflatten(0, (-1, len(layout.queries))).transpose(2, 3)
    real = (layout.queries[:, -values.shape[2] :] >= 0).to(values.device)  # [window, patch]
    return windows[:, real].flatten(1)


def largest_deviation(gaussian: Gaussian, grid: Grid) -> float:
    """Return the largest standard deviation on this grid, scaled as the variance is."""
    return math.sqrt(gaussian.largest * gaussian.growth(grid))
