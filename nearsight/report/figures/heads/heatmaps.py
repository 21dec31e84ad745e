"""Draw MAD and entropy of every head as layer x head heatmaps, on scales that never change."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import Metric, shown_in
from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.figures.null_lines import named_randoms, shuffled_nulls, unread_text
from nearsight.report.read import ConditionRuns, Family
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELLED = 10  # with more heads in a row, cells have no room for a number
ON_DARK, ON_PALE = "#ffffff", "#000000"  # of numbers in cells; the same in the dark theme


def cells(condition: ConditionRuns, metric: str) -> list[list[Estimate]]:
    """Return the estimates of all heads, as [layer][head].

    With one seed the heads stand in their order. With several seeds the k-th entry of a layer
    estimates its k-th smallest head over seeds, because heads of different seeds do not correspond.
    """
    num_layers = len(condition.runs[0].heads[metric].mean)
    if condition.num_seeds > 1:
        return [condition.sorted_heads(metric, layer) for layer in range(num_layers)]
    heads, n = condition.runs[0].heads[metric], condition.runs[0].measure.num_images
    return [
        [Estimate(*head, n, "images") for head in zip(heads.mean[i], heads.low[i], heads.high[i])]
        for i in range(num_layers)
    ]


def draw_heatmap(axes: Axes, condition: ConditionRuns, metric: Metric) -> None:
    """Draw a metric of every head of a condition; unread layers are hatched."""
    top = metric.top or metric.limits[1]
    values = [[head.value for head in layer] for layer in cells(condition, metric.name)]
    num_heads = max(len(layer) for layer in values)
    padded = [layer + [float("nan")] * (num_heads - len(layer)) for layer in values]
    mesh = axes.pcolormesh(padded, cmap="viridis", vmin=0, vmax=top, edgecolors="none")
    for unread in condition.unread:
        axes.fill_between(
            [0, len(values[unread])], unread, unread + 1, facecolor="none", edgecolor=ON_DARK,
            hatch="////", linewidth=0, alpha=0.35,
        )  # fmt: skip
    axes.set_ylim(len(values), 0)
    rows, cols = _ticks(len(values)), _ticks(num_heads)
    axes.set_yticks([row + 0.5 for row in rows], [str(row + 1) for row in rows])
    axes.set_xticks([col + 0.5 for col in cols], [str(col + 1) for col in cols])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("layer")
    sorted_by = (
        f"head, sorted by {metric.label} in each seed" if condition.num_seeds > 1 else "head"
    )
    axes.set_xlabel(sorted_by)
    if num_heads <= MOST_LABELLED:
        for row, layer in enumerate(values):
            for col, value in enumerate(layer):
                colour = ON_DARK if value < 0.45 * top else ON_PALE
                axes.text(
                    col + 0.5, row + 0.5, f"{value:.2f}", color=colour, fontsize=6.5,
                    ha="center", va="center",
                )  # fmt: skip
    parts = 4 if top == 1 else 3
    ticks = [part * top / parts for part in range(parts + 1)]
    bar = axes.figure.colorbar(mesh, ax=axes, ticks=ticks, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _ticks(count: int) -> list[int]:
    return list(range(0, count, max(1, round(count / 8))))


def _nulls_text(family: Family) -> str:
    """Write the null lines in words, because a heatmap has no place for lines."""
    lines = [("uniform attention", family.null["uniform_mad"]), ("3x3 box", family.null["box_mad"])]
    lines += [
        (f"random initialisation of {name}", fmean(untrained))
        for name, untrained in named_randoms(family, "mad")
    ]
    lines += [
        (f"{condition.label}, shuffled patches", fmean(shuffled))
        for condition in family.conditions
        if (shuffled := shuffled_nulls(condition, "mad"))
    ]
    return f"Mean MAD to compare with: {'; '.join(f'{n} {x:.3f}' for n, x in lines)}."


def head_heatmaps(family: Family, key: str, subtitle: str) -> Drawing:
    """Return the figure of the heatmaps of all conditions."""
    metrics = shown_in("figures")
    tables = {(c.label, x.name): cells(c, x.name) for c in family.conditions for x in metrics}
    estimates = [head for table in tables.values() for layer in table for head in layer]
    widest = max((head.high - head.low) / 2 for head in estimates)
    first = ", ".join(
        f"{condition.label} {condition.layer_estimate('mad', 0).value:.3f}"
        for condition in family.conditions
    )
    over = sorted({head.over for head in estimates})
    panels = [
        Panel(
            f"{condition.label}: {metric.label}",
            partial(draw_heatmap, condition=condition, metric=metric),
        )
        for condition in family.conditions
        for metric in metrics
    ]
    return Drawing(
        key=key,
        title="Every layer and head",
        subtitle=subtitle,
        reading="A cell is a head and a row is a layer, with the first layer on top. Dark cells "
        "attend close by (MAD) or to few patches (entropy). The scales are the same in every "
        f"report. The 95 % interval of a cell over {' or '.join(over)} is at most ±{widest:.2g}. "
        + _nulls_text(family)
        + unread_text(family).replace("Hollow marks", "Hatched rows"),
        alt="Heatmaps of mean attention distance and entropy by layer and head. Mean distance in "
        f"layer 1: {first}.",
        panels=tuple(panels),
        columns=(
            "condition",
            "metric",
            "layer",
            "head",
            "value",
            "low",
            "high",
            "n",
            "interval_over",
        ),
        rows=tuple(
            (label, metric, layer, head, x.value, x.low, x.high, x.n, x.over)
            for (label, metric), table in tables.items()
            for layer, heads in enumerate(table, 1)
            for head, x in enumerate(heads, 1)
        ),
        panel_size=(3.4, max(1.6, 0.75 + 0.24 * family.num_layers)),
    )
