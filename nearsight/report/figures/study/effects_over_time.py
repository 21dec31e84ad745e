"""Draw effects over the epochs: how early a factor has an effect, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import heading_of
from nearsight.report.figures.drawing import MUTED, Drawing, Panel
from nearsight.report.read import BLUE, GREEN, PURPLE, SKY, VERMILION
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (VERMILION, BLUE, GREEN, PURPLE, SKY)
MARKS = ("^", "o", "s", "D", "v")


@dataclass(frozen=True)
class EffectCurve:
    """The effect of a factor on a number, by epoch; ``where`` is the level of the other factors."""

    value: str
    where: str
    label: str
    points: list[tuple[int, Estimate]]

    @property
    def since(self) -> int | None:
        """The epoch since which every interval excludes 0 on the same side; None without one."""
        last, found = _side(self.points[-1][1]), None
        for epoch, x in reversed(self.points):
            if not last or _side(x) != last:
                break
            found = epoch
        return found


def _side(x: Estimate) -> int:
    """Return 1 for an interval above 0, -1 for one below it, and 0 for one that includes it."""
    return int(x.low > 0) - int(x.high < 0)


def draw_curves(axes: Axes, curves: Sequence[EffectCurve]) -> None:
    """Draw a line per factor with its interval, and a line at 0."""
    from matplotlib.ticker import MaxNLocator

    for curve, colour, mark in zip(curves, COLOURS, MARKS):
        epochs, found = zip(*curve.points)
        low, high = [x.low for x in found], [x.high for x in found]
        axes.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            epochs, [x.value for x in found], color=colour, marker=mark, markersize=3.5,
            label=curve.label,
        )  # fmt: skip
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_ylabel("effect: on minus off")
    if len(curves) > 1:
        axes.legend(fontsize=6.5)


def effect_curves(curves: Sequence[EffectCurve], key: str, subtitle: str) -> list[Drawing]:
    """Return the figure, a panel per number and level of the other factors.

    Returns:
        A list of one figure; empty if no effect was measured at two epochs.
    """
    shown = [curve for curve in curves if len(curve.points) > 1]
    panels: dict[tuple[str, str], list[EffectCurve]] = {}
    for curve in shown:
        panels.setdefault((curve.value, curve.where), []).append(curve)
    if not panels:
        return []
    lasting = [
        f"{curve.label} on {heading_of(curve.value)}"
        f"{f' ({curve.where})' if curve.where else ''} from epoch {curve.since}"
        for curve in shown
        if curve.since is not None
    ]
    said = "; ".join(lasting) or "none"
    titles = {(v, w): f"{heading_of(v)}{f': {w}' if w else ''}" for v, w in panels}
    return [
        Drawing(
            key=key,
            title="How early the effects show",
            subtitle=f"{subtitle} · on minus off, validation images",
            reading="A line is the main effect of a factor at every epoch at which the attention "
            "of all runs was measured; below 0 the factor lowers the number. Bands are 95 % "
            "intervals over seeds, for each epoch by itself. Effects whose interval excludes 0 "
            f"from some epoch to the end: {said}.",
            alt=f"Line charts of effects over epochs. Lasting effects: {said}.",
            panels=tuple(
                Panel(titles[where], partial(draw_curves, curves=of))
                for where, of in panels.items()
            ),
            columns=("value", "where", "effect", "epoch", "mean", "low", "high", "n"),
            rows=tuple(
                (curve.value, curve.where, curve.label, epoch, x.value, x.low, x.high, x.n)
                for curve in shown
                for epoch, x in curve.points
            ),
            inks=(MUTED, *COLOURS),
        )
    ]
