"""Draw a number over two factors: a line for each level of one, over the levels of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nearsight.report.figures.drawing import MUTED, Drawing, Panel, layer_colours
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = ("o", "s", "^", "D", "v")
Points = Sequence[tuple[float, Estimate]]


@dataclass(frozen=True)
class Lines:
    """The lines of a panel, and the labels of its axes."""

    title: str
    across: str  # the label of the horizontal axis
    label: str  # the label of the vertical axis; shares are drawn in percent
    lines: Mapping[str, Points]
    level: tuple[str, Estimate] | None = None  # name and value of a line to compare with


def draw_lines(axes: Axes, panel: Lines, whole: bool) -> None:
    """Draw a line for each level.

    Unless the axis has whole numbers (``whole``), lines are shifted a little sideways, so that
    their intervals stand side by side.
    """
    from matplotlib.ticker import MaxNLocator

    places = sorted({x for points in panel.lines.values() for x, _ in points})
    step = (min(b - a for a, b in pairwise(places)) if len(places) > 1 else 1.0) * 0.06
    for number, ((name, points), colour, mark) in enumerate(
        zip(panel.lines.items(), layer_colours(len(panel.lines)), MARKS)
    ):
        shift = 0.0 if whole else step * (number - (len(panel.lines) - 1) / 2)
        x = [place + shift for place, _ in points]
        y = [100 * each.value for _, each in points]
        ends = [(100 * (e.value - e.low), 100 * (e.high - e.value)) for _, e in points]
        if whole:
            low = [b - a for b, (a, _) in zip(y, ends)]
            high = [b + a for b, (_, a) in zip(y, ends)]
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(x, y, color=colour, marker=mark, markersize=3, label=name)
        else:
            axes.errorbar(
                x, y, yerr=list(zip(*ends)), color=colour, marker=mark, elinewidth=0.9, label=name
            )
    if panel.level is not None:
        name, level = panel.level
        axes.axhspan(100 * level.low, 100 * level.high, color=MUTED, alpha=0.12, linewidth=0)
        axes.axhline(100 * level.value, color=MUTED, linewidth=0.9, linestyle="--", label=name)
    if whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.label)
    _put_legend_above(axes)


def _put_legend_above(axes: Axes) -> None:
    """Put the legend above all lines and intervals, so that it hides none of them."""
    low, high = axes.get_ylim()
    legend_rows = -(-len(axes.get_legend_handles_labels()[1]) // 2)
    axes.set_ylim(low, high + (0.04 + 0.09 * legend_rows) * (high - low))
    axes.legend(fontsize=6.5, loc="upper center", ncol=2)


def grid_drawing(
    key: str, title: str, subtitle: str, reading: str, panels: Sequence[Lines], whole: bool = False
) -> Drawing:
    """Return a figure of lines.

    Args:
        key: The name of its files.
        title: What is plotted.
        subtitle: The data and the runs.
        reading: The caption.
        panels: The lines of every panel.
        whole: Whether the horizontal axis has whole numbers such as epochs; intervals are then
            bands instead of whiskers.
    """
    rows: list[tuple[Any, ...]] = [
        (panel.title, name, place, each.value, each.low, each.high, each.n)
        for panel in panels
        for name, points in panel.lines.items()
        for place, each in points
    ]
    rows += [
        (panel.title, panel.level[0], None, *_numbers(panel.level[1]))
        for panel in panels
        if panel.level is not None
    ]
    best = max(rows, key=lambda row: row[3])
    return Drawing(
        key=key,
        title=title,
        subtitle=subtitle,
        reading=reading,
        alt=f"Lines of {title.lower()}. Highest: {best[1]}, {100 * best[3]:.1f} %. {reading}",
        panels=tuple(Panel(x.title, partial(draw_lines, panel=x, whole=whole)) for x in panels),
        columns=("panel", "line", "at", "value", "low", "high", "n"),
        rows=tuple(rows),
        inks=(MUTED,),
        colours=tuple(layer_colours(max(len(panel.lines) for panel in panels))),
    )


def _numbers(x: Estimate) -> tuple[float, float, float, int]:
    return x.value, x.low, x.high, x.n
