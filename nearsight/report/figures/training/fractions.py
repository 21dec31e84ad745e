"""Draw accuracy and gain over the fraction of the data, like figure 2 of the ConViT paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import MUTED, Drawing, Panel, end_labels, labels_fit
from nearsight.report.read import HEADER, Family, Series, efficiency_rows, sample_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearsight.stats import Estimate


def draw_accuracy(axes: Axes, series: list[Series]) -> None:
    """Draw test accuracy over the fraction of the data, a line per series."""
    ends = []
    for each in series:
        points = {x: condition.estimate("accuracy") for x, condition in each.points.items()}
        _draw_points(axes, each, {x: _percent(y) for x, y in points.items()})
        ends.append((100 * points[max(points)].value, each.condition))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("test accuracy (%)")
    _fraction_axis(axes, series)
    if labels_fit([each.condition for each in series]):
        end_labels(axes, ends)


def draw_gain(axes: Axes, series: list[Series]) -> None:
    """Draw the gain over the plain model, a line per series."""
    for each in series:
        if gains := each.gains():
            _draw_points(axes, each, {x: (y.value, y.low, y.high) for x, y in gains.items()})
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set_ylabel("gain over the plain model (%)")
    _fraction_axis(axes, series)


def _percent(estimate: Estimate) -> tuple[float, float, float]:
    return 100 * estimate.value, 100 * estimate.low, 100 * estimate.high


def _draw_points(axes: Axes, each: Series, points: dict[float, tuple[float, float, float]]) -> None:
    """Draw a series as a line with whiskers."""
    shares = [100 * fraction for fraction in points]
    values, low, high = zip(*points.values(), strict=True)
    whiskers = [[v - x for v, x in zip(values, low)], [x - v for v, x in zip(values, high)]]
    condition = each.condition
    axes.errorbar(
        shares, values, yerr=whiskers, color=condition.colour, marker=condition.marker,
        linestyle=condition.line, capsize=2.5,
    )  # fmt: skip


def _fraction_axis(axes: Axes, series: list[Series]) -> None:
    shares = sorted({100 * fraction for each in series for fraction in each.points})
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.set_xlabel("share of the training data (%)")


def sample_efficiency(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None if no model was trained on several fractions."""
    series = sample_series(family)
    if not series:
        return None
    seeds = min(condition.num_seeds for each in series for condition in each.points.values())
    whiskers = f"95 % intervals over {'seeds' if seeds > 1 else 'test images'}"
    gained = any(each.gains() for each in series)
    panels = [Panel("Accuracy", lambda axes: draw_accuracy(axes, series))]
    reading = (
        "The further left, the less data. All models saw equally many images in training, so with "
        f"less data they saw each image more often. Whiskers are {whiskers}."
    )
    if gained:
        panels.append(Panel("Gain", lambda axes: draw_gain(axes, series)))
        reading += (
            " The gain is how much the accuracy exceeds that of the plain model, in percent of the "
            "plain model's accuracy, paired by seed."
        )
    found = "; ".join(
        f"{each.label} "
        + ", ".join(
            f"{100 * condition.estimate('accuracy').value:.1f} % with {100 * fraction:g} % of the "
            "data"
            for fraction, condition in each.points.items()
        )
        for each in series
    )
    conditions = tuple(each.condition for each in series)
    return Drawing(
        key=key,
        title="Sample efficiency",
        subtitle=subtitle,
        reading=reading,
        alt=f"Test accuracy over the share of the training data: {found}.",
        panels=tuple(panels),
        columns=HEADER,
        rows=tuple(efficiency_rows(series)),
        legend=() if labels_fit(conditions) else conditions,
        colours=tuple(condition.colour for condition in conditions),
    )
