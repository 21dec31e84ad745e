"""Draw the MAD of every layer over the epochs at which the attention of a run was measured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel, end_labels, layer_colours
from nearsight.report.figures.heads import mad_limit
from nearsight.report.figures.null_lines import draw_nulls
from nearsight.report.read import ConditionRuns, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def looks(condition: ConditionRuns) -> list[tuple[int, list[list[float]]]]:
    """Return the epochs at which all seeds were measured, with MAD as [layer][head].

    MAD is averaged over seeds, after the heads of each layer were sorted.
    """
    return [
        (epoch, _mean([look.mad for look in of_seeds]))
        for epoch, of_seeds in condition.looks.items()
    ]


def _mean(maps: list[list[list[float]]]) -> list[list[float]]:
    """Sort the heads of each layer and average them over seeds.

    Head 1 of one seed does not correspond to head 1 of another, but the smallest MAD of each does.
    """
    sorted_maps = [[sorted(layer) for layer in heads] for heads in maps]
    return [[sum(values) / len(values) for values in zip(*layers)] for layers in zip(*sorted_maps)]


def draw_onset(axes: Axes, family: Family, condition: ConditionRuns) -> None:
    """Draw the mean head of every layer as a line, and its most local head as points."""
    from matplotlib.ticker import MaxNLocator

    found = looks(condition)
    epochs = [epoch for epoch, _ in found]
    axes.set_ylim(0, mad_limit(family))
    for layer, colour in enumerate(layer_colours(family.num_layers)):
        means = [sum(heads[layer]) / len(heads[layer]) for _, heads in found]
        axes.plot(epochs, means, color=colour)
        axes.plot(
            epochs, [heads[layer][0] for _, heads in found], color=colour, marker=condition.marker,
            linestyle="none", markersize=2.6,
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_ylabel("MAD (grid diagonals)")
    end_labels(axes, [], draw_nulls(axes, family, "mad", 0))


def onset_curves(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None if some condition was not measured while it trained."""
    conditions = family.conditions
    if not all(looks(condition) for condition in conditions):
        return None
    rows = tuple(
        (condition.label, epoch, layer, rank, value)
        for condition in conditions
        for epoch, heads in looks(condition)
        for layer, values in enumerate(heads, 1)
        for rank, value in enumerate(values, 1)
    )
    last = "; ".join(
        f"{c.label} {min(min(layer) for layer in looks(c)[-1][1]):.3f} in epoch {looks(c)[-1][0]}"
        for c in conditions
    )
    return Drawing(
        key=key,
        title="When locality appears",
        subtitle=subtitle,
        reading="A line is the mean MAD of a layer's heads, and the points below it are the "
        "layer's most local head. The darkest colour is the first layer. MAD was measured on a few "
        "validation images, and heads were sorted within each seed. Grey lines are the null lines "
        "of layer 1, as in the figures above.",
        alt=f"Line charts of mean attention distance over epochs. Most local head: {last}.",
        panels=tuple(
            Panel(condition.label, partial(draw_onset, family=family, condition=condition))
            for condition in conditions
        ),
        columns=("condition", "epoch", "layer", "rank", "mad"),
        rows=rows,
        inks=tuple(layer_colours(family.num_layers)),
        colours=tuple(condition.colour for condition in conditions),
    )
