"""Draw how similar the features of neighbouring patches, and of patches and class token, are.

The figure follows figure 5 of LocAt (arXiv 2603.04892). Both similarities are cosines of the
outputs of blocks; they are there only if they were measured (``--metrics all``).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import metric as entry
from nearsight.report.figures.drawing import RULE, Drawing, Panel, end_labels, labels_fit
from nearsight.report.figures.heads.sorted_heads import band_text
from nearsight.report.read import ConditionRuns, Family
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"locality_score": "Neighbouring patches", "cls_similarity": "Patches and [CLS]"}
NOT_A_NUMBER = Estimate(math.nan, math.nan, math.nan, 0, "images")


def feature_lines(family: Family, metric: str) -> list[tuple[ConditionRuns, list[Estimate | None]]]:
    """Return the values of every layer, for the conditions in which some layer has the metric."""
    found = [
        (condition, [condition.feature_estimate(metric, i) for i in range(family.num_layers)])
        for condition in family.conditions
    ]
    return [(condition, layers) for condition, layers in found if any(layers)]


def draw_features(axes: Axes, family: Family, metric: str) -> None:
    """Draw a line per condition with its interval, and a gap where a layer has no number."""
    from matplotlib.ticker import MaxNLocator

    places, ends = range(1, family.num_layers + 1), []
    lines = feature_lines(family, metric)
    known = [x for _, layers in lines for x in layers if x]
    bottom = min(0.0, math.floor(10 * min(x.low for x in known)) / 10)
    axes.set_ylim(bottom, max(0.1, math.ceil(10 * max(x.high for x in known)) / 10))
    if bottom < 0:
        axes.axhline(0, color=RULE, linewidth=0.8)
    for condition, layers in lines:
        drawn = [x or NOT_A_NUMBER for x in layers]
        low, high = [x.low for x in drawn], [x.high for x in drawn]
        axes.fill_between(places, low, high, color=condition.colour, alpha=0.22, linewidth=0)
        axes.plot(
            places, [x.value for x in drawn], color=condition.colour, linestyle=condition.line,
            marker=condition.marker, clip_on=False,
        )  # fmt: skip
        if labels_fit(family.conditions):
            ends.append(([x.value for x in layers if x][-1], condition))
    axes.set_xlim(0.5, family.num_layers + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer")
    axes.set_ylabel(entry(metric).axis_label)
    end_labels(axes, ends)


def feature_depth(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure of both similarities; None if no run measured features."""
    lines = {metric: found for metric in TITLES if (found := feature_lines(family, metric))}
    if not lines:
        return None
    conditions = family.conditions
    last = "; ".join(
        f"{TITLES[metric]}: "
        + ", ".join(f"{c.label} {[x for x in layers if x][-1].value:.3f}" for c, layers in found)
        for metric, found in lines.items()
    )
    return Drawing(
        key=key,
        title="Similarity of features through the layers",
        subtitle=subtitle,
        reading="A line is the mean cosine of a patch's feature (the output of a layer's block) "
        "with the features of its up to 8 neighbours, or with that of the class token. If "
        "neighbours are similar and patches and class token are not, the features have local "
        f"structure; if both cosines are high, all tokens have become alike. {band_text(family)}",
        alt=f"Line charts of cosine similarities by layer. In the last layer: {last}.",
        panels=tuple(
            Panel(TITLES[metric], partial(draw_features, family=family, metric=metric))
            for metric in lines
        ),
        columns=("condition", "metric", "layer", "mean", "low", "high", "n", "interval_over"),
        rows=tuple(
            (condition.label, metric, layer, x.value, x.low, x.high, x.n, x.over)
            for metric, found in lines.items()
            for condition, layers in found
            for layer, x in enumerate(layers, 1)
            if x
        ),
        legend=() if labels_fit(conditions) else conditions,
        colours=tuple(condition.colour for condition in conditions),
    )
