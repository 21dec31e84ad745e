"""Draw every head as a point in the plane of MAD and entropy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import metric
from nearsight.report.figures.drawing import MUTED, Drawing, Panel, layer_colours
from nearsight.report.figures.heads.sorted_heads import mad_limit
from nearsight.report.figures.null_lines import drawn_randoms, face, shuffled_nulls, unread_text
from nearsight.report.read import ConditionRuns, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLANE = ("mad", "entropy")  # to the right, and up
TOGETHER = 2  # at most this many conditions share one plane; more get a plane each


def draw_plane(axes: Axes, family: Family, conditions: Sequence[ConditionRuns]) -> None:
    """Draw heads as points coloured by layer, with intervals over images, and the null points."""
    colours = layer_colours(family.num_layers)
    draw_frame(axes, family, [*null_points(family, conditions), *_shuffled_points(conditions)])
    for condition in conditions:
        for run in condition.runs:
            mad, entropy = run.heads["mad"], run.heads["entropy"]
            for layer, colour in enumerate(colours):
                x, y = mad.mean[layer], entropy.mean[layer]
                axes.errorbar(
                    x, y,
                    xerr=arms(x, mad.low[layer], mad.high[layer]),
                    yerr=arms(y, entropy.low[layer], entropy.high[layer]),
                    fmt=condition.marker, color=colour, ecolor=colour, elinewidth=0.7,
                    markersize=5, markeredgewidth=0.9 if layer in condition.unread else 0,
                    markerfacecolor=face(condition, layer, colour), alpha=0.8, clip_on=False,
                )  # fmt: skip
    if len(conditions) > 1:
        axes.legend(handles=[_shape(c) for c in conditions], loc="lower right")
    layer_bar(axes, colours)


def draw_frame(axes: Axes, family: Family, nulls: Sequence[tuple]) -> None:
    """Draw the axes of a plane and its null points with their names."""
    for name, place, mark, offset, side in nulls:
        axes.plot(*place, marker=mark, color=MUTED, markersize=6, linestyle="none", zorder=5)
        axes.annotate(
            name, place, xytext=offset, textcoords="offset points", ha=side,
            color=MUTED, fontsize=7.5,
        )  # fmt: skip
    axes.set_xlim(0, mad_limit(family))
    axes.set_ylim(0, 1.08)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_xlabel(metric("mad").axis_label)
    axes.set_ylabel(metric("entropy").axis_label)


def null_points(family: Family, conditions: Sequence[ConditionRuns]) -> list[tuple]:
    """Return the null points: uniform attention, the 3x3 box and random initialisation.

    Returns:
        For each: name, place, marker, and the offset and alignment of the name.
    """
    points: list[tuple] = [
        ("uniform", (family.null["uniform_mad"], family.null["uniform_entropy"]), "x", (0, 6),
         "center"),
        ("3x3 box", (family.null["box_mad"], family.null["box_entropy"]), "x", (5, -9), "left"),
    ]  # fmt: skip
    shown = Family(tuple(conditions))
    untrained = zip(*(drawn_randoms(shown, name) for name in PLANE), strict=True)
    for (name, mads), (_, entropies) in untrained:
        points.append((name, (fmean(mads), fmean(entropies)), "+", (6, -9), "left"))
    return points


def _shuffled_points(conditions: Sequence[ConditionRuns]) -> list[tuple]:
    """Return the null points of images with shuffled patches, one per condition."""
    points: list[tuple] = []
    for condition in conditions:
        shuffled = [shuffled_nulls(condition, name) for name in PLANE]
        if shuffled[0]:
            name = "shuffled" if len(conditions) == 1 else f"shuffled, {condition.label}"
            points.append((name, tuple(map(fmean, shuffled)), "1", (5, -3), "left"))
    return points


def arms(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]]:
    """Return the lengths of whiskers below and above values.

    They are at least 0, because rounding may put a bound on the wrong side of its mean.
    """
    below = [max(0.0, value - bound) for value, bound in zip(values, low)]
    above = [max(0.0, bound - value) for value, bound in zip(values, high)]
    return [below, above]


def _shape(condition: ConditionRuns) -> object:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=MUTED, marker=condition.marker, linestyle="none", label=condition.label
    )


def layer_bar(axes: Axes, colours: list[str], below: bool = False) -> None:
    """Draw a bar that says which colour is which layer, beside the axes or below them."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    count = len(colours)
    norm = BoundaryNorm([layer + 0.5 for layer in range(count + 1)], count)
    step = max(1, round(count / 8))
    bar = axes.figure.colorbar(
        ScalarMappable(norm, ListedColormap(colours)), ax=axes, label="layer",
        ticks=range(1, count + 1, step), aspect=28, pad=0.02,
        location="bottom" if below else "right",
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    if not below:
        bar.ax.invert_yaxis()


def head_points(conditions: Sequence[ConditionRuns]) -> tuple[tuple, ...]:
    """Return condition, seed, layer, head, MAD and entropy of every head."""
    return tuple(
        (condition.label, run.seed, layer, head, mad, entropy)
        for condition in conditions
        for run in condition.runs
        for layer, maps in enumerate(zip(*(run.heads[name].mean for name in PLANE)), 1)
        for head, (mad, entropy) in enumerate(zip(*maps), 1)
    )


def mad_entropy_plane(family: Family, key: str, subtitle: str) -> Drawing:
    """Return the figure; two conditions share a plane, more get a plane each."""
    conditions = family.conditions
    together = len(conditions) <= TOGETHER and len({c.marker for c in conditions}) == len(
        conditions
    )
    groups = [conditions] if together else [(condition,) for condition in conditions]
    counts = "; ".join(f"{c.label} {c.near_text}" for c in conditions)
    return Drawing(
        key=key,
        title="Distance and entropy of every head",
        subtitle=subtitle,
        reading="A point is a head of one run. Heads at the lower left attend to few patches close "
        "by, heads on the right attend far away, and heads at the top spread their attention over "
        "many patches. Whiskers are 95 % intervals over images, often smaller than the point. Grey "
        "marks show uniform attention, a 3x3 box and, if they were measured, the mean over all "
        "heads at random initialisation and on images with shuffled patches. Heads with a smaller "
        f"MAD than the 3x3 box (identity heads have a self-mass of at least 0.5): {counts}."
        f"{unread_text(family)}",
        alt="Scatter plot of attention entropy against mean attention distance, coloured by "
        f"layer. Heads below the distance of a 3x3 box: {counts}. Identity: self-mass of at least "
        "0.5.",
        panels=tuple(
            Panel(
                "" if together and len(group) > 1 else group[0].label,
                partial(draw_plane, family=family, conditions=group),
            )
            for group in groups
        ),
        columns=("condition", "seed", "layer", "head", "mad", "entropy"),
        rows=head_points(conditions),
        inks=tuple(layer_colours(family.num_layers)),
        panel_size=(4.1, 3.3) if together else (3.4, 2.8),
    )
