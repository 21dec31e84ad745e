"""Draw the most local head of every condition, the smallest MAD first.

This is figure 4 of the protocol paper. The paper shows one run each; here the smallest MAD of all
heads is taken in each run, and its mean over seeds has an interval. As in the paper, conditions
with CutMix are circles and those without are triangles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import MUTED, Drawing, Panel, name_rows, row_height, spread
from nearsight.report.figures.heads.plane import arms
from nearsight.report.figures.heads.sorted_heads import mad_limit
from nearsight.report.figures.null_lines import OF_GRID, grid_null
from nearsight.report.read import ConditionRuns, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 3  # with fewer conditions there is no ranking
NULL_GAP = 0.19  # the least distance between names of null lines, as a share of the axis


def ranked_conditions(family: Family) -> list[ConditionRuns]:
    """Return the conditions by ascending min MAD."""
    return sorted(family.conditions, key=lambda condition: condition.estimate("min_mad").value)


def draw_ranking(axes: Axes, family: Family, conditions: Sequence[ConditionRuns]) -> None:
    """Draw a row per condition: its mean with whiskers, and a faint dot for every seed."""
    top = mad_limit(family)
    axes.set_xlim(0, top)
    _name_nulls(axes, family, top)
    for row, condition in enumerate(conditions):
        colour, x = condition.colour, condition.estimate("min_mad")
        if condition.num_seeds > 1:
            seeds = [run.scalars["min_mad"].value for run in condition.runs]
            axes.plot(
                seeds, [row + 0.26] * len(seeds), color=colour, marker=".", linestyle="none",
                markersize=4, markeredgewidth=0, alpha=0.5,
            )  # fmt: skip
        axes.errorbar(
            [x.value], [row], xerr=arms([x.value], [x.low], [x.high]), color=colour,
            marker=condition.marker, markersize=5.5, capsize=2.5,
        )  # fmt: skip
    name_rows(axes, [condition.label for condition in conditions])
    axes.set_xlabel("MAD of the most local head (grid diagonals)")


def _name_nulls(axes: Axes, family: Family, top: float) -> None:
    """Draw the null lines of the grid with their names above the axes."""
    nulls = [(grid_null(family, key, "mad", 0), name) for key, name in OF_GRID]
    places = spread([value / top for value, _ in nulls], NULL_GAP)
    for (value, name), place in zip(nulls, places, strict=True):
        axes.axvline(value, color=MUTED, linewidth=0.8)
        axes.text(
            place, 1.015, name, transform=axes.transAxes, ha="center", va="bottom", color=MUTED,
            fontsize=7.5,
        )  # fmt: skip


def least_distances(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None with fewer than three conditions."""
    if len(family.conditions) < FEWEST:
        return None
    conditions = ranked_conditions(family)
    found = {condition.label: condition.estimate("min_mad") for condition in conditions}
    beyond = any(x.low < 0 or x.high > mad_limit(family) for x in found.values())
    ranking = "; ".join(f"{label} {_words(x.value, x.low, x.high)}" for label, x in found.items())
    return Drawing(
        key=key,
        title="The most local head of every condition",
        subtitle=subtitle,
        reading="The condition with the most local head is on top. A mark is the smallest MAD of "
        "all heads of a run"
        + (". " if family.is_models else "; circles were trained with CutMix, triangles without. ")
        + _whiskers_text(conditions)
        + (" A whisker without an end extends beyond the axis." if beyond else "")
        + " Grey lines show attention spread evenly over all patches and over a 3x3 box.",
        alt=f"Smallest mean attention distance of a head, in ascending order, with 95 % intervals: "
        f"{ranking}. {_groups_text(conditions)}Uniform attention has "
        f"{family.null['uniform_mad']:.3f}, a 3x3 box {family.null['box_mad']:.3f}.",
        panels=(Panel("", partial(draw_ranking, family=family, conditions=conditions)),),
        columns=("condition", "cutmix", "seed", "min_mad", "low", "high", "n", "interval_over"),
        rows=tuple(row for condition in conditions for row in _rows(condition)),
        colours=tuple(condition.colour for condition in conditions),
        panel_size=(4.1, 0.9 + row_height(list(found)) * len(conditions)),
    )


def _rows(condition: ConditionRuns) -> list[tuple]:
    """Return the mean over seeds if there are several, and every seed with its interval."""
    named = [(run.seed, run.scalars["min_mad"]) for run in condition.runs]
    if condition.num_seeds > 1:
        named.insert(0, (None, condition.estimate("min_mad")))
    return [
        (condition.label, condition.has_cutmix, "mean" if seed is None else seed, x.value, x.low,
         x.high, x.n, x.over)
        for seed, x in named
    ]  # fmt: skip


def _whiskers_text(conditions: Sequence[ConditionRuns]) -> str:
    """Explain whiskers and dots."""
    methods = dict.fromkeys(condition.min_mad_method for condition in conditions)
    over_images = f"95 % intervals over images ({'; or '.join(methods)})"
    if all(condition.num_seeds == 1 for condition in conditions):
        return (
            f"Whiskers are {over_images}, often smaller than the mark; they say nothing about "
            "other seeds."
        )
    text = "Whiskers are 95 % intervals over seeds, and the dots below them are the single seeds."
    if any(condition.num_seeds == 1 for condition in conditions):
        text += f" For conditions with one seed, whiskers are {over_images}."
    return text


def _groups_text(conditions: Sequence[ConditionRuns]) -> str:
    """Write the ranges with and without CutMix; empty unless there are both."""
    groups = {
        word: [c.estimate("min_mad").value for c in conditions if c.has_cutmix == cutmix]
        for word, cutmix in (("With", True), ("without", False))
    }
    if not all(groups.values()):
        return ""
    told = [f"{word} CutMix {min(x):.3f} to {max(x):.3f}" for word, x in groups.items()]
    return f"{', '.join(told)}. "


def _words(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ({low:.3f} to {high:.3f})"
