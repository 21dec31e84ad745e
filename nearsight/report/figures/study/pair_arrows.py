"""Draw models as points, with an arrow from each model to the same model with a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import MUTED, TEXT, Drawing, Panel
from nearsight.report.read import BLUE, VERMILION
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Number = Estimate | float


@dataclass(frozen=True)
class Arrow:
    """A model before and after a change."""

    name: str
    before: tuple[Number, Number]  # its horizontal and vertical number; plain floats are a paper's
    after: tuple[Number, Number]
    group: str = ""  # each group of models has a panel of its own


def middle(x: Number) -> float:
    """Return the value of a number with or without an interval."""
    return x.value if isinstance(x, Estimate) else x


def draw_arrows(
    axes: Axes, ours: Sequence[Arrow], paper: Sequence[Arrow], across: str, up: str, per: float
) -> None:
    """Draw an arrow from before to after for every model.

    Our models are drawn in colour with intervals, those of the paper in grey.
    """
    for arrows, is_paper in ((paper, True), (ours, False)):
        for arrow in arrows:
            start, end = (
                (middle(x) * per, 100 * middle(y)) for x, y in (arrow.before, arrow.after)
            )
            ink = MUTED if is_paper else TEXT
            axes.annotate(
                "", end, start,
                arrowprops={"arrowstyle": "->", "color": ink, "linewidth": 0.9, "shrinkB": 3},
            )  # fmt: skip
            for (x, y), point, colour, mark in (
                (start, arrow.before, VERMILION, "^"), (end, arrow.after, BLUE, "o"),
            ):  # fmt: skip
                face = "none" if is_paper else colour
                axes.plot(x, y, mark, color=MUTED if is_paper else colour, markerfacecolor=face)
                if isinstance(point[1], Estimate):
                    axes.plot([x, x], [100 * point[1].low, 100 * point[1].high], color=colour)
                if isinstance(point[0], Estimate) and point[0].high > point[0].low:
                    axes.plot([per * point[0].low, per * point[0].high], [y, y], color=colour)
            axes.annotate(
                arrow.name, start, (5, -7), textcoords="offset points", fontsize=6.5, color=ink
            )
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def arrow_drawing(
    key: str,
    title: str,
    subtitle: str,
    ours: Sequence[Arrow],
    paper: Sequence[Arrow],
    names: tuple[str, str],
    labels: tuple[str, str],
    per: float = 100.0,
    paper_up: str | None = None,
) -> Drawing:
    """Return the figure, with panels of our models and then of the paper's.

    Args:
        key: The name of its files.
        title: What is plotted.
        subtitle: The data and the runs.
        ours: Our models; may be empty.
        paper: The models of the paper; may be empty.
        names: The names of a model before and after the change.
        labels: The labels of the horizontal and the vertical axis.
        per: The factor that horizontal numbers are multiplied by; vertical numbers are shares and
            drawn in percent.
        paper_up: The label of the vertical axis of the paper's panels, if it differs.
    """
    panels = [
        (f"{of}{f', {group}' if group else ''}", *_sides(of, arrows, group))
        for of, arrows in (("Ours", ours), ("The paper's", paper))
        for group in dict.fromkeys(arrow.group for arrow in arrows)
    ]
    higher = sum(middle(x.after[1]) > middle(x.before[1]) for x in ours)
    said = f"Higher with the change in {higher} of {len(ours)} models of ours." if ours else ""
    return Drawing(
        key=key,
        title=title,
        subtitle=subtitle,
        reading=f"An arrow leads from {names[0]} (triangle) to {names[1]} (circle). Lines through "
        "our points are 95 % intervals over seeds. The paper has one seed and other axes, so "
        "compare the directions of the arrows and not where they are.",
        alt=f"Points of {len(ours)} pairs of models, arrows from {names[0]} to {names[1]}. {said}",
        panels=tuple(
            Panel(
                name,
                partial(
                    draw_arrows,
                    ours=mine,
                    paper=theirs,
                    across=labels[0],
                    up=labels[1] if mine else paper_up or labels[1],
                    per=per,
                ),
            )
            for name, mine, theirs in panels
        ),
        columns=("of", "model", "state", *labels),
        rows=tuple(
            (of, ", ".join(filter(None, (arrow.name, arrow.group))), state, middle(x), middle(y))
            for of, arrows in (("ours", ours), ("paper", paper))
            for arrow in arrows
            for state, (x, y) in zip(names, (arrow.before, arrow.after))
        ),
        inks=(TEXT, MUTED, BLUE, VERMILION),
    )


def _sides(of: str, arrows: Sequence[Arrow], group: str) -> tuple[Sequence[Arrow], Sequence[Arrow]]:
    """Return the arrows of a group as ours, or as the paper's."""
    found = [arrow for arrow in arrows if arrow.group == group]
    return (found, ()) if of == "Ours" else ((), found)
