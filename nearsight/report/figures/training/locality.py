"""Draw the numbers of the summary table over the epochs, a line per condition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import RUN_NUMBERS, Number, metric, numbers_of
from nearsight.report.figures.drawing import MUTED, Drawing, Panel, end_labels, labels_fit
from nearsight.report.figures.heads import axis_top
from nearsight.report.figures.null_lines import OF_GRID, grid_null
from nearsight.report.read import ConditionRuns, Family
from nearsight.stats import over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_MAD = numbers_of("mad")[0]
LOOKED_AT = [x for x in RUN_NUMBERS if x.metric and "training" in metric(x.metric).tables]
Course = dict[int, list[float]]  # by epoch, a value of every seed


def locality_course(condition: ConditionRuns, number: Number) -> Course:
    """Return a number of every seed, by epoch, for epochs in which all seeds recorded it."""
    found = {
        epoch: [value for look in looks if (value := look.number(number)) is not None]
        for epoch, looks in condition.looks.items()
    }
    return {epoch: values for epoch, values in found.items() if len(values) == condition.num_seeds}


def number_null(family: Family, name: str, number: Number) -> float | None:
    """Return the null line ``uniform`` or ``box`` of a number.

    For a mean over heads it is averaged over the grids of all heads; for any other number it is
    that of the grid of layer 1. It is None if the measurement has no such line.
    """
    assert number.metric is not None
    if f"{name}_{number.metric}" not in family.null:
        return None
    if number.statistic != "mean":
        return grid_null(family, name, number.metric, 0)
    heads = family.first.measure.num_heads
    return fmean(
        grid_null(family, name, number.metric, layer)
        for layer, num in enumerate(heads)
        for _ in range(num)
    )


def draw_locality(
    axes: Axes, family: Family, conditions: Sequence[ConditionRuns], number: Number, last: int
) -> None:
    """Draw a line per condition with its interval over seeds, and the null lines."""
    from matplotlib.ticker import MaxNLocator

    lines = [(number_null(family, key, number), name) for key, name in OF_GRID]
    nulls = [(height, name) for height, name in lines if height is not None]
    for height, _ in nulls:
        axes.axhline(height, color=MUTED, linewidth=0.8)
    ends, highest = [], [height for height, _ in nulls]
    for condition in conditions:
        course = locality_course(condition, number)
        epochs, means = list(course), [fmean(values) for values in course.values()]
        if condition.num_seeds > 1:
            bands = [over_seeds(values) for values in course.values()]
            low, high = [x.low for x in bands], [x.high for x in bands]
            axes.fill_between(epochs, low, high, color=condition.colour, alpha=0.15, linewidth=0)
            highest += [min(1.0, value) for value in high]
        axes.plot(
            epochs, means, color=condition.colour, linestyle=condition.line,
            marker=condition.marker, markersize=2.6, clip_on=False,
        )  # fmt: skip
        highest += means
        if course:
            ends.append((means[-1], condition))
    assert number.metric is not None
    axes.set_ylim(0, axis_top(family, number.metric) or 1.08 * max(highest))
    axes.set_xlim(0, last)
    axes.set_xlabel("epoch")
    axes.set_ylabel(metric(number.metric).axis_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    end_labels(axes, ends if labels_fit(family.conditions) else [], nulls)


def locality_curves(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None if no condition was measured while it trained."""
    conditions = [condition for condition in family.conditions if condition.looks]
    if not conditions:
        return None
    numbers = [x for x in LOOKED_AT if all(locality_course(c, x) for c in conditions)]
    last = max(1, *(epoch for c in conditions for epoch in c.looks))
    found = "; ".join(
        f"{condition.label} " + " and ".join(_point(condition, end) for end in (0, -1))
        for condition in conditions
    )
    return Drawing(
        key=key,
        title="Locality while training",
        subtitle=f"{subtitle} · {looks_text(conditions)}",
        reading="A model becomes more local where its line falls (for self-mass: rises). The "
        "numbers are those of the table of conditions, at the epochs at which all seeds were "
        f"measured; epoch 0 is before training. {_bands_text(conditions)} Grey lines show "
        "attention spread evenly over all patches and over a 3x3 box. The last values differ a "
        "little from the table, because they were measured on validation images."
        f"{left_out_text(family, conditions)}",
        alt="Line charts of locality over epochs, a line per condition. Smallest mean attention "
        f"distance of a head: {found}; uniform attention has "
        f"{family.null['uniform_mad']:.3f}.",
        panels=tuple(
            Panel(
                x.heading,
                partial(draw_locality, family=family, conditions=conditions, number=x, last=last),
            )
            for x in numbers
        ),
        columns=("condition", "number", "epoch", "mean", "low", "high", "n"),
        rows=tuple(
            (condition.label, x.name, epoch, *_interval(values), len(values))
            for condition in conditions
            for x in numbers
            for epoch, values in locality_course(condition, x).items()
        ),
        legend=() if labels_fit(family.conditions) else tuple(conditions),
        colours=tuple(condition.colour for condition in conditions),
    )


def _interval(values: list[float]) -> tuple[float, float | str, float | str]:
    """Return mean and 95 % bounds over seeds; the bounds are empty with one seed."""
    if len(values) == 1:
        return values[0], "", ""
    x = over_seeds(values)
    return x.value, x.low, x.high


def _point(condition: ConditionRuns, end: int) -> str:
    epoch, values = list(locality_course(condition, MIN_MAD).items())[end]
    value, low, high = _interval(values)
    interval = "" if len(values) == 1 else f" ({low:.3f} to {high:.3f})"
    return f"{value:.3f}{interval} in epoch {epoch}"


def _bands_text(conditions: Sequence[ConditionRuns]) -> str:
    several = any(condition.num_seeds > 1 for condition in conditions)
    single = any(condition.num_seeds == 1 for condition in conditions)
    if several and single:
        return "Bands are 95 % intervals over seeds; a condition with one seed has no band."
    if several:
        return "Bands are 95 % intervals over seeds."
    return "There is one seed per condition, and therefore no interval."


def looks_text(conditions: Sequence[ConditionRuns]) -> str:
    """Say on how many images attention was measured while runs trained."""
    looks = [look for c in conditions for run in c.runs for look in run.looks]
    counts = sorted({look.num_images for look in looks})
    return f"{'–'.join(f'{n:,}' for n in counts)} validation images"


def left_out_text(family: Family, conditions: Sequence[ConditionRuns]) -> str:
    """Name the conditions that a figure over epochs cannot show."""
    lacking = [c.label for c in family.conditions if c not in conditions]
    return f" Not measured while training: {', '.join(lacking)}." if lacking else ""
