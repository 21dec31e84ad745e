"""Choose the metrics to measure by their names in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

from torch import Tensor

from nearsight.core import UserError, suggestion
from nearsight.measure.catalogue import CATALOGUE, METRIC_NAMES, Metric, metric
from nearsight.measure.metrics.convention import PAPER, Convention
from nearsight.measure.metrics.definition import FeatureMetric, RowMetric
from nearsight.measure.metrics.distance import MAD_NOT_RENORMALISED
from nearsight.measure.metrics.head_kinds import NEEDED
from nearsight.models.layers import Grid

POSITION_SHARE = "position_share"


@dataclass(frozen=True)
class Chosen:
    """The metrics to measure, sorted by what they are computed from."""

    of_rows: dict[str, RowMetric] = field(default_factory=dict)
    of_features: dict[str, FeatureMetric] = field(default_factory=dict)
    position_share: bool = False


def mathematics(entry: Metric) -> Any:
    """Return the object that computes a metric of the catalogue, such as a ``RowMetric``."""
    return getattr(import_module(entry.home), entry.name.upper())


def metric_of_attention(entry: Metric, attention: Tensor, grid: Grid) -> Tensor:
    """Compute a metric of whole attention between the patches of a grid with its pure function."""
    function = getattr(import_module(entry.home), entry.pure_function)
    return function(attention, *[grid] * ("grid" in signature(function).parameters))


def chosen_metrics(names: Sequence[str] | str, convention: Convention = PAPER) -> Chosen:
    """Return the metrics of these names, or every metric for ``"all"``.

    ``position_share`` also selects the other metrics that are needed to name heads.

    Raises:
        UserError: If a name is not in the catalogue.
    """
    if isinstance(names, str):
        names = METRIC_NAMES if names == "all" else (names,)
    unknown = [name for name in names if name not in METRIC_NAMES]
    if unknown or not names:
        raise UserError(
            (f"there is no metric {unknown[0]!r}" if unknown else "no metric is given")
            + f"; choose among {', '.join(METRIC_NAMES)}, or 'all'"
            + (_metric_hint(unknown[0]) if unknown else "")
        )
    if POSITION_SHARE in names:
        names = tuple(dict.fromkeys([*names, *NEEDED]))
    chosen = Chosen(position_share=POSITION_SHARE in names)
    for name in names:
        computed = mathematics(metric(name))
        if isinstance(computed, RowMetric):
            unchanged_rows = name == "mad" and not convention.renormalised
            chosen.of_rows[name] = MAD_NOT_RENORMALISED if unchanged_rows else computed
        elif isinstance(computed, FeatureMetric):
            chosen.of_features[name] = computed
    return chosen


def _metric_hint(name: str) -> str:
    """Suggest a metric for an unknown name, which may be that of a metric's pure function."""
    named = [entry.name for entry in CATALOGUE if entry.pure_function == name]
    return (
        f"; nearsight.{name} computes the metric {named[0]!r}"
        if named
        else suggestion(name, METRIC_NAMES)
    )
