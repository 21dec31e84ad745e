"""Draw the Gaussians that GAug learned: standard deviations and strengths, layer by layer.

The figure follows figure 6 of LocAt (arXiv 2603.04892): bands of percentiles over patches, heads
and images around the mean. There is one panel for each condition and quantity, on axes that all
conditions share.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import MUTED, Drawing, Panel, end_labels
from nearsight.report.read import ConditionRuns, Family, Gaussians, ReadDistribution
from nearsight.stats import over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTITIES = {
    "deviation": ("width", "standard deviation (patches)"),
    "strength": ("strength", "strength α"),
}
PERCENTILES = (5, 25, 50, 75, 95)
HEADROOM = 1.3  # the bound is drawn if it is at most this many times the largest value


def distributions(condition: ConditionRuns, name: str) -> dict[int, ReadDistribution]:
    """Return the distribution of a quantity for the layers (from 0) with GAug, over seeds."""
    runs = [
        [getattr(x, name, None) for x in run.learned.layers(Gaussians)] for run in condition.runs
    ]
    found = {}
    for layer, of_seeds in enumerate(zip(*runs)):
        known = [x for x in of_seeds if x is not None]
        if len(known) < len(runs):
            continue
        mean = known[0].mean if len(known) == 1 else over_seeds([x.mean.value for x in known])
        percentiles = tuple(map(fmean, zip(*(x.percentiles for x in known))))
        found[layer] = ReadDistribution(mean, percentiles)
    return found


def draw_widths(axes: Axes, family: Family, condition: ConditionRuns, name: str) -> None:
    """Draw bands of percentiles (5 to 95 and 25 to 75), the median, and the mean with interval."""
    from matplotlib.ticker import MaxNLocator

    found = distributions(condition, name)
    places, colour = [layer + 1 for layer in found], condition.colour
    parts = list(zip(*(x.percentiles for x in found.values())))
    for low, high, shade in ((0, 4, 0.18), (1, 3, 0.3)):
        axes.fill_between(places, parts[low], parts[high], color=colour, alpha=shade, linewidth=0)
    axes.plot(places, parts[2], color=colour, linewidth=0.9, linestyle="dotted")
    means = [x.mean for x in found.values()]
    arms = [[max(0.0, x.value - x.low) for x in means], [max(0.0, x.high - x.value) for x in means]]
    axes.errorbar(
        places, [x.value for x in means], yerr=arms, color=colour, linestyle=condition.line,
        marker=condition.marker, elinewidth=0.8, clip_on=False,
    )  # fmt: skip
    highest = _highest(family, name)
    axes.set_ylim(0, 1.05 * highest)
    bounds = [x.largest for x in _layers(condition) if x.largest is not None]
    nulls = []
    if name == "deviation" and bounds and max(bounds) <= highest:
        axes.axhline(max(bounds), color=MUTED, linewidth=0.8)
        nulls.append((max(bounds), "bound"))
    axes.set_xlim(0.5, family.num_layers + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer")
    axes.set_ylabel(QUANTITIES[name][1])
    end_labels(axes, [], [*nulls, (parts[4][-1], "95 %"), (parts[0][-1], "5 %")])


def _layers(condition: ConditionRuns) -> list[Gaussians]:
    return [x for run in condition.runs for x in run.learned.layers(Gaussians) if x]


def _highest(family: Family, name: str) -> float:
    """Return the upper end of the shared axis: the largest value, or the bound if that is near."""
    layers = [x for condition in family.conditions for x in _layers(condition)]
    data = max(max(*x.percentiles, x.mean.high) for x in (getattr(y, name) for y in layers))
    bounds = [x.largest for x in layers if x.largest is not None]
    if name == "deviation" and bounds and max(bounds) <= HEADROOM * data:
        return max(data, *bounds)
    return data or 1.0


def near_text(condition: ConditionRuns) -> str:
    """Say how wide Gaussians can be, and how many widths are near either bound."""
    layers = [x for x in _layers(condition) if x.near_bounds is not None]
    if not layers:
        return f"{condition.label}: the widths are fixed."
    low, high = (max(x.near_bounds[side] for x in layers if x.near_bounds) for side in (0, 1))
    bounds = sorted({x.largest for x in layers if x.largest is not None})
    return (
        f"{condition.label}: widths are bounded by 0 and {_numbers(bounds)} patches; in any layer "
        f"at most {100 * low:.1f} % of them are within 5 % of the lower bound and at most "
        f"{100 * high:.1f} % within 5 % of the upper one."
    )


def _numbers(values: Sequence[float]) -> str:
    return " or ".join(f"{value:.3g}" for value in values)


def gaussian_drawings(family: Family, number: str) -> list[Drawing]:
    """Return the figure of widths and strengths, if there are any."""
    subtitle = f"{family.name} · {family.scope_text} · all heads, patches and both axes"
    drawing = gaussian_depth(family, f"gaussians{number}", subtitle)
    return [drawing] if drawing else []


def gaussian_depth(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure of widths and strengths; None if no condition has GAug."""
    conditions = [c for c in family.conditions if distributions(c, "deviation")]
    if not conditions:
        return None
    tables = {(c.label, name): distributions(c, name) for c in conditions for name in QUANTITIES}
    ends = "; ".join(
        f"{c.label} from {found[first].mean.value:.2f} patches in layer {first + 1} to "
        f"{found[last].mean.value:.2f} in layer {last + 1}"
        for c in conditions
        for found in [tables[c.label, "deviation"]]
        for first, last in [(min(found), max(found))]
    )
    return Drawing(
        key=key,
        title="Width and strength of the Gaussians through the layers",
        subtitle=subtitle,
        reading="A small width with a large strength keeps the attention of a patch in its "
        "neighbourhood. Marks are means over patches, heads and images, with 95 % intervals that "
        "are often smaller than the mark. Bands extend from the 5th to the 95th and from the 25th "
        "to the 75th percentile; the dotted line is the median. "
        + " ".join(near_text(c) for c in conditions),
        alt=f"Charts of learned standard deviations and strengths by layer. Mean width: {ends}.",
        panels=tuple(
            Panel(
                f"{condition.label}: {word}",
                partial(draw_widths, family=family, condition=condition, name=name),
            )
            for condition in conditions
            for name, (word, _) in QUANTITIES.items()
        ),
        columns=(
            "condition", "quantity", "layer", "mean", "low", "high", "n", "interval_over",
            *(f"percentile_{x}" for x in PERCENTILES),
        ),
        rows=tuple(
            (label, name, layer + 1, *_numbers_of(x))
            for (label, name), found in tables.items()
            for layer, x in found.items()
        ),
        colours=tuple(condition.colour for condition in conditions),
    )  # fmt: skip


def _numbers_of(x: ReadDistribution) -> tuple:
    return (x.mean.value, x.mean.low, x.mean.high, x.mean.n, x.mean.over, *x.percentiles)
