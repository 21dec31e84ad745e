"""Draw the MAD of the heads of the first and last layers, sorted within each layer."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import metric
from nearsight.report.figures.drawing import Drawing, Panel, end_labels, labels_fit
from nearsight.report.figures.null_lines import draw_nulls, face, nulls_text, unread_text
from nearsight.report.read import Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def chosen_layers(num_layers: int) -> list[int]:
    """Return the first two and the last two layers, counted from 0; all if at most four.

    >>> chosen_layers(8), chosen_layers(3)
    ([0, 1, 6, 7], [0, 1, 2])
    """
    if num_layers <= 4:
        return list(range(num_layers))
    return [0, 1, num_layers - 2, num_layers - 1]


def mad_limit(family: Family) -> float:
    """Return the upper end of the axis of MAD: that of the catalogue, or more to show all heads."""
    highest = max(
        value
        for condition in family.conditions
        for run in condition.runs
        for layer in run.heads["mad"].high
        for value in layer
    )
    return max(metric("mad").top or 0.0, math.ceil(10 * highest) / 10)


def axis_top(family: Family, name: str) -> float | None:
    """Return the upper end of the axis of a metric, with room above its limit.

    It is None if the metric has no fixed end, so that the data decide.
    """
    if name == "mad":
        return mad_limit(family)
    top = metric(name).top
    return None if top is None else 1.05 * top


def draw_layer(axes: Axes, family: Family, layer: int) -> None:
    """Draw a line per condition with its interval, and the null lines."""
    axes.set_ylim(0, mad_limit(family))
    nulls, ends = draw_nulls(axes, family, "mad", layer), []
    for condition in family.conditions:
        heads = condition.sorted_heads("mad", layer)
        places = range(1, len(heads) + 1)
        low, high = [h.low for h in heads], [h.high for h in heads]
        axes.fill_between(places, low, high, color=condition.colour, alpha=0.22, linewidth=0)
        axes.plot(
            places, [head.value for head in heads], color=condition.colour,
            linestyle=condition.line, marker=condition.marker, clip_on=False,
            markerfacecolor=face(condition, layer, condition.colour),
        )  # fmt: skip
        if labels_fit(family.conditions):
            ends.append((heads[-1].value, condition))
    axes.set_xlim(0.7, len(heads) + 0.3)
    step = max(1, round(len(heads) / 8))
    axes.set_xticks(range(1, len(heads) + 1, step))
    axes.set_xlabel("head, sorted by MAD")
    axes.set_ylabel(metric("mad").axis_label)
    end_labels(axes, ends, nulls)


def mad_profiles(family: Family, key: str, subtitle: str) -> Drawing:
    """Return the figure of sorted heads, a panel per layer."""
    layers = chosen_layers(family.num_layers)
    conditions = family.conditions
    found = ", ".join(
        f"{condition.label} {condition.sorted_heads('mad', layers[0])[0].value:.3f}"
        for condition in conditions
    )
    rows = tuple(
        (condition.label, layer + 1, rank, head.value, head.low, head.high, head.n, head.over)
        for condition in conditions
        for layer in layers
        for rank, head in enumerate(condition.sorted_heads("mad", layer), 1)
    )
    return Drawing(
        key=key,
        title="Attention distance of every head, first and last layers",
        subtitle=subtitle,
        reading="Heads are sorted by MAD within each layer. If a line starts near 0, the layer has "
        "heads in which patches attend to themselves or to their neighbours. "
        f"{band_text(family)} {nulls_text(family)}{unread_text(family)}",
        alt=f"Line charts of mean attention distance per head for layers "
        f"{', '.join(str(layer + 1) for layer in layers)}. Smallest value in layer "
        f"{layers[0] + 1}: {found}; uniform attention has {family.null['uniform_mad']:.3f}, "
        f"a 3x3 box {family.null['box_mad']:.3f}.",
        panels=tuple(
            Panel(f"Layer {layer + 1}", partial(draw_layer, family=family, layer=layer))
            for layer in layers
        ),
        columns=("condition", "layer", "rank", "mad", "low", "high", "n", "interval_over"),
        rows=rows,
        legend=() if labels_fit(conditions) else conditions,
        colours=tuple(condition.colour for condition in conditions),
    )


def band_text(family: Family) -> str:
    """Explain the bands."""
    several = any(condition.num_seeds > 1 for condition in family.conditions)
    single = any(condition.num_seeds == 1 for condition in family.conditions)
    if several and single:
        return (
            "Bands are 95 % intervals over seeds, or over images if there is one seed (then often "
            "thinner than the line)."
        )
    if several:
        return "Bands are 95 % intervals over seeds."
    return "Bands are 95 % intervals over images, often thinner than the line."
