"""Draw the effects of a factorial study: a panel for each number, a row for each contrast."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import heading_of
from nearsight.report.figures.drawing import MUTED, TEXT, Drawing, Panel
from nearsight.report.read import BLUE, ORANGE
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMES = " × "
LABEL_WIDTH = 20  # characters in a line


@dataclass(frozen=True)
class Contrast:
    """An effect at the end of training and, if it was measured, at matched steps."""

    label: str
    at_end: Estimate | None
    matched: Estimate | None
    at_end_wide: Estimate | None = None  # the same effect with its simultaneous interval
    matched_wide: Estimate | None = None


def draw_effects(axes: Axes, contrasts: Sequence[Contrast]) -> None:
    """Draw effects at the end as filled circles, and at matched steps as open squares below."""
    kinds = (("at_end", 0.0, "o", BLUE, BLUE), ("matched", 0.28, "s", ORANGE, "none"))
    for row, contrast in enumerate(contrasts):
        for kind, below, marker, colour, face in kinds:
            x: Estimate | None = getattr(contrast, kind)
            wide: Estimate | None = getattr(contrast, f"{kind}_wide")
            if wide is not None:
                axes.plot(
                    [wide.low, wide.high], [row + below] * 2, color=colour, linewidth=0.5, zorder=1
                )
            if x is not None:
                axes.errorbar(
                    x.value, row + below, xerr=[[x.value - x.low], [x.high - x.value]],
                    color=colour, marker=marker, markerfacecolor=face, capsize=2.5,
                )  # fmt: skip
    axes.axvline(0, color=MUTED, linewidth=0.8)
    _keep_own_intervals_readable(axes, contrasts)
    labels = [textwrap.fill(x, LABEL_WIDTH) for x in short_labels([x.label for x in contrasts])]
    axes.set_yticks(range(len(contrasts)), labels)
    axes.set_ylim(len(contrasts) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel("effect: on minus off")


def _keep_own_intervals_readable(axes: Axes, contrasts: Sequence[Contrast]) -> None:
    """Limit the axis so that very wide simultaneous intervals do not squeeze the others."""
    own = [x for y in contrasts for x in (y.at_end, y.matched) if x is not None]
    if own:
        low, high = min(0.0, *(x.low for x in own)), max(0.0, *(x.high for x in own))
        room = 0.5 * (high - low) or 1.0
        axes.set_xlim(low - room, high + room)


def short_labels(labels: Sequence[str]) -> list[str]:
    """Shorten interactions to the initials of their factors, and explain the initials.

    >>> short_labels(["AutoAugment", "CutMix", "AutoAugment × CutMix"])
    ['AutoAugment (A)', 'CutMix (C)', 'A × C']
    """
    single = [label for label in labels if TIMES not in label]
    initials = {label: label[0].upper() for label in single}
    if len(single) == len(labels) or len(set(initials.values())) < len(single):
        return list(labels)
    return [
        TIMES.join(initials.get(part, part) for part in label.split(TIMES))
        if TIMES in label
        else f"{label} ({initials[label]})"
        for label in labels
    ]


def effect_plot(
    effects: Mapping[str, Sequence[Contrast]], key: str, subtitle: str, notes: Sequence[str]
) -> Drawing:
    """Return the figure of all contrasts, a panel per number.

    Args:
        effects: The contrasts by the name of the number.
        key: The name of the files of the figure.
        subtitle: Data, images and seeds.
        notes: Sentences to append to the caption.
    """

    def panel(value: str) -> Panel:
        return Panel(heading_of(value), lambda axes: draw_effects(axes, effects[value]))

    rows = tuple(
        (value, x.label, kind, y.value, y.low, y.high, y.n, (z or y).low, (z or y).high)
        for value, contrasts in effects.items()
        for x in contrasts
        for kind, y, z in (
            ("end", x.at_end, x.at_end_wide),
            ("matched steps", x.matched, x.matched_wide),
        )
        if y is not None
    )
    apart = [f"{row[1]} on {heading_of(row[0])}" for row in rows if row[7] * row[8] > 0]
    said = ", ".join(dict.fromkeys(apart)) or "none"
    most = max(len(contrasts) for contrasts in effects.values())
    return Drawing(
        key=key,
        title="Effects of what the protocols differ in",
        subtitle=subtitle,
        reading="A mark to the left of 0 means that switching the factor on lowers the number. "
        "Circles are effects at the end of training; open squares are effects at the last epoch "
        "that all runs reached, on validation images. Whiskers are 95 % intervals over seeds, each "
        "by itself; thin lines, which may extend beyond the panel, are simultaneous intervals. "
        + " ".join(notes),
        alt=f"Effects with 95 % intervals over seeds. Simultaneous ones that exclude 0: {said}.",
        panels=tuple(panel(value) for value in effects),
        columns=(
            "value",
            "effect",
            "when",
            "mean",
            "low",
            "high",
            "n",
            "simultaneous_low",
            "simultaneous_high",
        ),
        rows=rows,
        inks=(TEXT, MUTED, BLUE, ORANGE),
        panel_size=(3.4, 1.1 + 0.32 * most),
    )
