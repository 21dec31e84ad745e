"""The table of metrics: what is summed over rows, and what the sum means.

A metric of attention is a sum over the query rows of a layer, block by block, and a last step that
turns the sum of all rows into the number per image and head (or layer). The pure functions of whole
attention matrices in distance.py, entropy.py, mass.py, offset.py, information.py and diversity.py
define the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.layout import Geometry
from nearsight.measure.metrics.convention import PAPER, Convention
from nearsight.measure.metrics.distance import ratio
from nearsight.measure.metrics.head_kinds import NEEDED
from nearsight.measure.metrics.information import normalised
from nearsight.measure.rows import sums

DEFAULT_METRICS = ("mad", "entropy", "self_mass", "radius_mass", "nonlocality")
FEATURE_METRICS = ("locality_score", "cls_similarity")
POSITION_SHARE = "position_share"


@dataclass(frozen=True)
class Sum:
    """A sum over rows: [image, head, ...] of a block, or [image, ...] ``of_layer``.

    ``in_kernel``: compiled code may give it without the rows.
    """

    of: Callable[[Any], Tensor]
    in_kernel: bool = False
    needs_sink: bool = False
    of_layer: bool = False


@dataclass(frozen=True)
class Metric:
    """``value`` of the total over all rows, per image and head; metrics may share a total."""

    name: str
    total: Sum
    value: Callable[[Tensor, Geometry], Tensor]


@dataclass(frozen=True)
class Chosen:
    """The metrics to measure: of attention rows, of features, of maps over all images."""

    of_rows: tuple[Metric, ...]
    of_features: tuple[str, ...] = ()
    position_share: bool = False


DISTANCES = Sum(sums.distance_sums, in_kernel=True)
KEPT_DISTANCES = Sum(sums.kept_distance_sums, needs_sink=True)
NEAR = Sum(sums.near_sums, in_kernel=True)
OFFSETS = Sum(sums.offset_sums)


def _mean(total: Tensor, at: Geometry) -> Tensor:
    return total / at.grid.num_patches


def _diagonals(total: Tensor, at: Geometry) -> Tensor:
    return _mean(total, at) / at.grid.diagonal


def _entropy(total: Tensor, at: Geometry) -> Tensor:
    return _mean(total, at) / math.log(at.num_keys)


def _without_self(total: Tensor, at: Geometry) -> Tensor:
    return ratio(total[..., 0], total[..., 1]) / at.grid.diagonal


def _score(total: Tensor, at: Geometry) -> Tensor:
    return 1 - _mean(total, at) / at.uniform_distance if at.uniform_distance else total


def _spread(total: Tensor, at: Geometry) -> Tensor:
    mass, offset, square = total.split([1, 2, 1], dim=-1)
    variance = square / mass - (offset / mass).square().sum(-1, keepdim=True)
    return variance[..., 0].clamp(min=0).sqrt()


def _information(total: Tensor, at: Geometry) -> Tensor:
    return normalised(total[..., 1:], total[..., 0], at.grid.num_patches)


OF_ROWS = {
    metric.name: metric
    for metric in (
        Metric("mad", DISTANCES, _diagonals),
        Metric("entropy", Sum(sums.entropy_sums, in_kernel=True), _entropy),
        Metric("self_mass", NEAR, lambda total, at: _mean(total[..., 0], at)),
        Metric("radius_mass", NEAR, lambda total, at: _mean(total[..., 1:], at)),
        Metric("nonlocality", DISTANCES, _mean),
        Metric("score", DISTANCES, _score),
        Metric("mad_without_self", Sum(sums.leaving_sums), _without_self),
        Metric("ring_mass", Sum(sums.ring_sums), _mean),
        Metric("sink", Sum(sums.sink_sums, needs_sink=True), _mean),
        Metric("offset", OFFSETS, lambda total, at: _mean(total[..., 1:3], at)),
        Metric("offset_spread", OFFSETS, _spread),
        Metric("nmi", Sum(sums.key_sums), _information),
        Metric("head_diversity", Sum(sums.pair_sums, of_layer=True), _mean),
    )
}
METRICS = (*OF_ROWS, *FEATURE_METRICS, POSITION_SHARE)


def chosen_metrics(names: Sequence[str] | str, convention: Convention = PAPER) -> Chosen:
    """The metrics of these names; ``"all"`` for every one.

    ``position_share`` is there to name heads and brings the other metrics that names need.
    """
    if isinstance(names, str):
        names = METRICS if names == "all" else (names,)
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise UserError(
            f"expected metrics among {', '.join(METRICS)} or 'all', "
            f"got {', '.join(map(repr, unknown)) or 'none'}"
        )
    if POSITION_SHARE in names:
        names = tuple(dict.fromkeys([*names, *NEEDED]))
    table = dict(OF_ROWS)
    if not convention.renormalised:
        table["mad"] = Metric("mad", KEPT_DISTANCES, _diagonals)
    return Chosen(
        tuple(table[name] for name in names if name in table),
        tuple(name for name in names if name in FEATURE_METRICS),
        POSITION_SHARE in names,
    )
