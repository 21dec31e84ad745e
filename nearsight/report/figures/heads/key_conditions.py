"""Draw all heads of the four key conditions in the plane of MAD and entropy.

This is figure 5 of the protocol paper, which shows Baseline and Modern, each with and without
CutMix. The paper gives every condition a shape of its own; here a condition keeps the colour and
shape that it has everywhere, circles with CutMix and triangles without. The paper shows the heads
of one run each; here the mean over heads also has an interval over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.figures.heads.plane import PLANE, arms, draw_frame, head_points, null_points
from nearsight.report.figures.null_lines import face, unread_text
from nearsight.report.read import ConditionRuns, Family
from nearsight.stats import Estimate, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearsight.report.read import Evidence

KEY_PROTOCOLS = ("baseline", "modern", "baseline+cutmix", "modern-cutmix")
FEWEST = 3  # with fewer key conditions there is no figure


def key_conditions(family: Family) -> list[ConditionRuns]:
    """Return the key conditions in order.

    The list is empty if fewer than three of them are in the family, or if one of them is there
    twice, for example with two models.
    """
    found = [
        condition
        for name in KEY_PROTOCOLS
        for condition in family.conditions
        if condition.runs[0].protocol["name"] == name
    ]
    names = {condition.runs[0].protocol["name"] for condition in found}
    return found if FEWEST <= len(found) == len(names) else []


def head_mean(condition: ConditionRuns, metric: str) -> Estimate:
    """Estimate the mean over all heads, over seeds if there are several, else over images."""
    if condition.num_seeds == 1:
        return _over_images(condition.runs[0], metric)
    return over_seeds([_over_images(run, metric).value for run in condition.runs])


def _over_images(run: Evidence, metric: str) -> Estimate:
    entry = run.measure.summary.mean(metric)
    assert entry is not None, "checked when the evidence was read"
    return Estimate(entry.value, entry.low, entry.high, run.measure.num_images, "images")


def draw_key_plane(axes: Axes, family: Family, conditions: Sequence[ConditionRuns]) -> None:
    """Draw heads as faint marks, the mean of each condition as an open mark, and null points."""
    draw_frame(axes, family, null_points(family, conditions))
    for condition in conditions:
        for run in condition.runs:
            for layer, (x, y) in enumerate(zip(*(run.heads[m].mean for m in PLANE))):
                hollow = layer in condition.unread
                axes.plot(
                    x, y, color=condition.colour, marker=condition.marker, linestyle="none",
                    markersize=3.6, markeredgewidth=0.7 if hollow else 0, alpha=0.35,
                    markerfacecolor=face(condition, layer, condition.colour), clip_on=False,
                )  # fmt: skip
    for condition in conditions:
        mad, entropy = (head_mean(condition, metric) for metric in PLANE)
        axes.errorbar(
            [mad.value], [entropy.value],
            xerr=arms([mad.value], [mad.low], [mad.high]),
            yerr=arms([entropy.value], [entropy.low], [entropy.high]),
            color=condition.colour, marker=condition.marker, markersize=8,
            markerfacecolor="none", markeredgewidth=1.5, linestyle="none", elinewidth=1.2,
            capsize=2.5, zorder=6,
        )  # fmt: skip
    axes.legend(handles=[_mark(condition) for condition in conditions], loc="lower right")


def _mark(condition: ConditionRuns) -> object:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=condition.colour, marker=condition.marker, markersize=6.5,
        linestyle="none", markerfacecolor="none", markeredgewidth=1.5, label=condition.label,
    )  # fmt: skip


def key_plane(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None unless at least three key conditions are there, each once."""
    conditions = key_conditions(family)
    if not conditions:
        return None
    means = {
        condition.label: [head_mean(condition, metric) for metric in PLANE]
        for condition in conditions
    }
    said = "; ".join(
        f"{label} MAD {mad.value:.3f} ({mad.low:.3f} to {mad.high:.3f}), entropy "
        f"{entropy.value:.3f} ({entropy.low:.3f} to {entropy.high:.3f})"
        for label, (mad, entropy) in means.items()
    )
    heads = tuple((*row[:5], "", "", row[5], "", "") for row in head_points(conditions))
    averages = tuple(
        (label, "mean", "", "", mad.value, mad.low, mad.high, entropy.value, entropy.low,
         entropy.high)
        for label, (mad, entropy) in means.items()
    )  # fmt: skip
    return Drawing(
        key=key,
        title="Distance and entropy of all heads, with and without CutMix",
        subtitle=subtitle,
        reading="Heads at the lower left attend to few patches close by. A faint mark is a head of "
        "one seed, and a large open mark is the mean over all heads of a condition. "
        f"{_whiskers_text(conditions)} Circles were trained with CutMix, triangles without. Grey "
        "marks show uniform attention, a 3x3 box and, if it was measured, the mean over all heads "
        f"at random initialisation.{unread_text(family)}",
        alt="Scatter plot of attention entropy against mean attention distance of all heads of "
        f"{len(conditions)} conditions. Means over heads with 95 % intervals: {said}.",
        panels=(Panel("", partial(draw_key_plane, family=family, conditions=conditions)),),
        columns=(
            "condition", "seed", "layer", "head", "mad", "mad_low", "mad_high", "entropy",
            "entropy_low", "entropy_high",
        ),
        rows=heads + averages,
        colours=tuple(condition.colour for condition in conditions),
        panel_size=(4.1, 3.5),
    )  # fmt: skip


def _whiskers_text(conditions: Sequence[ConditionRuns]) -> str:
    """Explain the whiskers of a mean."""
    several = any(condition.num_seeds > 1 for condition in conditions)
    single = any(condition.num_seeds == 1 for condition in conditions)
    if several and single:
        return "Whiskers are 95 % intervals over seeds, or over images if there is one seed."
    if several:
        return "Whiskers are 95 % intervals over seeds."
    return "Whiskers are 95 % intervals over images, often smaller than the mark."
