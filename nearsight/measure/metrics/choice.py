"""Which metrics are measured: names from the catalogue, and the mathematics behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

from torch import Tensor

from nearsight.core import UserError, suggestion
from nearsight.measure.catalogue import METRIC_NAMES, Metric, metric
from nearsight.measure.metrics.convention import PAPER, Convention
from nearsight.measure.metrics.definition import FeatureMetric, RowMetric
from nearsight.measure.metrics.distance import MAD_NOT_RENORMALISED
from nearsight.measure.metrics.head_kinds import NEEDED
from nearsight.models.layers import Grid

POSITION_SHARE = "position_share"


@dataclass(frozen=True)
class Chosen:
    """The metrics to measure: of attention rows, of features, of maps over all images."""

    of_rows: dict[str, RowMetric] = field(default_factory=dict)
    of_features: dict[str, FeatureMetric] = field(default_factory=dict)
    position_share: bool = False


def mathematics(entry: Metric) -> Any:
    """Return what a metric's module holds under its name in capitals."""
    return getattr(import_module(entry.home), entry.name.upper())


def metric_of_attention(entry: Metric, attention: Tensor, grid: Grid) -> Tensor:
    """Return a metric of whole attention over the patches of a grid, by its pure function."""
    function = getattr(import_module(entry.home), entry.pure_function)
    return function(attention, *[grid] * ("grid" in signature(function).parameters))


def chosen_metrics(names: Sequence[str] | str, convention: Convention = PAPER) -> Chosen:
    """Return the metrics of these names; ``"all"`` for every one.

    ``position_share`` is there to name heads and brings the other metrics that names need.
    """
    if isinstance(names, str):
        names = METRIC_NAMES if names == "all" else (names,)
    unknown = [name for name in names if name not in METRIC_NAMES]
    if unknown or not names:
        raise UserError(
            f"expected metrics among {', '.join(METRIC_NAMES)} or 'all', "
            f"got {', '.join(map(repr, unknown)) or 'none'}"
            f"{suggestion(unknown[0], METRIC_NAMES) if unknown else ''}"
        )
    if POSITION_SHARE in names:
        names = tuple(dict.fromkeys([*names, *NEEDED]))
    chosen = Chosen(position_share=POSITION_SHARE in names)
    for name in names:
        found = mathematics(metric(name))
        if isinstance(found, RowMetric):
            kept = name == "mad" and not convention.renormalised
            chosen.of_rows[name] = MAD_NOT_RENORMALISED if kept else found
        elif isinstance(found, FeatureMetric):
            chosen.of_features[name] = found
    return chosen
