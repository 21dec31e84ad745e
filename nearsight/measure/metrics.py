"""The table of metrics: how each is summed over rows, and what the sum means.

A metric is a sum over the query rows of a layer, block by block, and a last step that turns the sum
of all rows into the number per image and head. The pure functions of whole attention matrices in
distance.py, entropy.py and mass.py define the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from nearsight.measure.geometry import Geometry
from nearsight.measure.rows import Rows

DEFAULT_METRICS = ("mad", "entropy", "self_mass", "radius_mass")


@dataclass(frozen=True)
class Metric:
    """``sums`` of a block [image, head, ...]; ``value`` of the total over all rows, same shape."""

    name: str
    sums: Callable[[Rows], Tensor]
    value: Callable[[Tensor, Geometry], Tensor]
    needs_sink: bool = False
    whole_layers: bool = False


def _mean(total: Tensor, geometry: Geometry) -> Tensor:
    return total / geometry.grid.num_patches


METRICS = {
    metric.name: metric
    for metric in (
        Metric("mad", lambda rows: rows.distance_sums, lambda x, at: _mean(x, at) / at.grid.diagonal),
        Metric(
            "entropy",
            lambda rows: rows.entropies.sum((1, 3)),
            lambda x, at: _mean(x, at) / math.log(at.num_keys),
        ),
        Metric("self_mass", lambda rows: rows.near_sums[..., 0], _mean),
        Metric("radius_mass", lambda rows: rows.near_sums[..., 1:], _mean),
    )
}


def chosen_metrics(names: Sequence[str] | str) -> tuple[Metric, ...]:
    """The metrics of these names; ``"all"`` for every one."""
    if isinstance(names, str):
        names = tuple(METRICS) if names == "all" else (names,)
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise ValueError(
            f"expected metrics among {', '.join(METRICS)} or 'all', "
            f"got {', '.join(map(repr, unknown)) or 'none'}"
        )
    return tuple(METRICS[name] for name in names)
