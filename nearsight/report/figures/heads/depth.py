"""Draw MAD and entropy through the layers: layer means, every head, and the null lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import metric, shown_in
from nearsight.report.figures.drawing import MUTED, Drawing, Panel, end_labels, labels_fit
from nearsight.report.figures.heads.sorted_heads import axis_top, band_text
from nearsight.report.figures.null_lines import (
    OF_GRID,
    RANDOM_LINE,
    SHUFFLED_LINE,
    drawn_randoms,
    face,
    grid_null,
    nulls_text,
    random_nulls,
    shuffled_nulls,
    unread_text,
)
from nearsight.report.read import Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_depth(axes: Axes, family: Family, name: str) -> None:
    """Draw the layer means of every condition as a line with its interval, and heads as points."""
    from matplotlib.ticker import MaxNLocator

    layers = range(family.num_layers)
    places = [layer + 1 for layer in layers]
    axes.set_ylim(0, axis_top(family, name))
    nulls = []
    for key, text in OF_GRID:
        heights = [grid_null(family, key, name, layer) for layer in layers]
        axes.plot(places, heights, color=MUTED, linewidth=0.8)
        nulls.append((heights[-1], text))
    for text, untrained in drawn_randoms(family, name):
        axes.plot(places, untrained, color=MUTED, linewidth=0.8, linestyle=RANDOM_LINE)
        nulls.append((untrained[-1], text))
    ends = []
    for condition in family.conditions:
        means = [condition.layer_estimate(name, layer) for layer in layers]
        low, high = [x.low for x in means], [x.high for x in means]
        colour = condition.colour
        axes.fill_between(places, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(places, [x.value for x in means], color=colour, linestyle=condition.line)
        if shuffled := shuffled_nulls(condition, name):
            axes.plot(places, shuffled, color=colour, linewidth=0.9, linestyle=SHUFFLED_LINE)
            if len(family.conditions) == 1:
                nulls.append((shuffled[-1], "shuffled"))
        for layer in layers:
            heads = [head.value for head in condition.sorted_heads(name, layer)]
            axes.plot(
                [layer + 1] * len(heads), heads, color=colour, marker=condition.marker,
                linestyle="none", markersize=2.6, alpha=0.7, clip_on=False,
                markerfacecolor=face(condition, layer, colour), markeredgewidth=0.8,
            )  # fmt: skip
        if labels_fit(family.conditions):
            ends.append((means[-1].value, condition))
    axes.set_xlim(0.5, family.num_layers + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer")
    axes.set_ylabel(metric(name).axis_label)
    end_labels(axes, ends, nulls)


def depth_profiles(family: Family, key: str, subtitle: str) -> Drawing:
    """Return the figure of MAD and entropy through the layers."""
    conditions, names = family.conditions, [x.name for x in shown_in("figures")]
    rows = tuple(
        (
            condition.label, name, layer + 1, x.value, x.low, x.high, x.n, x.over,
            *(null[layer] if null else None for null in nulls),
        )
        for condition in conditions
        for name in names
        for nulls in [(random_nulls(family, condition, name), shuffled_nulls(condition, name))]
        for layer in range(family.num_layers)
        for x in [condition.layer_estimate(name, layer)]
    )  # fmt: skip
    found = "; ".join(
        f"{c.label} from {c.layer_estimate('mad', 0).value:.3f} in layer 1 to "
        f"{c.layer_estimate('mad', last).value:.3f} in layer {last + 1}"
        for c in conditions
        for last in [max(i for i in range(family.num_layers) if i not in c.unread)]
    )
    return Drawing(
        key=key,
        title="Attention distance and entropy through the layers",
        subtitle=subtitle,
        reading="A line is the mean of a layer's heads, and a point is one head. Heads near 0 "
        "attend close by (MAD) or to few patches (entropy). "
        f"{band_text(family)} {nulls_text(family)}{unread_text(family)}",
        alt=f"Line charts of mean attention distance and entropy by layer. Distance: {found}.",
        panels=tuple(
            Panel(metric(name).label, partial(draw_depth, family=family, name=name))
            for name in names
        ),
        columns=(
            "condition", "metric", "layer", "mean", "low", "high", "n", "interval_over",
            "random_init", "shuffled_patches",
        ),
        rows=rows,
        legend=() if labels_fit(conditions) else conditions,
        colours=tuple(condition.colour for condition in conditions),
    )  # fmt: skip
