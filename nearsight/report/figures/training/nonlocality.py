"""Draw the nonlocality of every layer while a run trains, in patches.

The figure follows figure 5 of ConViT (d'Ascoli et al., 2021): one panel for each condition, on
shared axes, with a line for each layer. The attention is what a layer really computes, with content
and position together.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from nearsight.measure.catalogue import metric
from nearsight.report.figures.drawing import MUTED, Drawing, Panel, end_labels, layer_colours
from nearsight.report.figures.null_lines import OF_GRID, grid_null
from nearsight.report.read import ConditionRuns, Family
from nearsight.stats import Estimate, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = list[tuple[int, Estimate]]  # epoch and value


def nonlocality_curves(condition: ConditionRuns) -> list[Curve]:
    """Return a curve per layer, over seeds if there are several; empty if it was not measured."""
    found: list[Curve] = []
    for epoch, looks in condition.looks.items():
        known = [look.nonlocality for look in looks if look.nonlocality is not None]
        if len(known) < len(looks):
            continue
        for layer, of_seeds in enumerate(zip(*known, strict=True)):
            values = [x.value for x in of_seeds]
            if layer == len(found):
                found.append([])
            found[layer].append((epoch, of_seeds[0] if len(values) == 1 else over_seeds(values)))
    return found


def patch_nulls(family: Family) -> list[tuple[float, str]]:
    """Return uniform attention and the 3x3 box on the grid of layer 1, in patches."""
    rows, cols = family.first.grids[0]
    diagonal = math.hypot(rows - 1, cols - 1)
    return [(diagonal * grid_null(family, key, "mad", 0), name) for key, name in OF_GRID]


def draw_nonlocality(axes: Axes, family: Family, condition: ConditionRuns, top: float) -> None:
    """Draw a line per layer with its interval, and the null lines."""
    from matplotlib.ticker import MaxNLocator

    curves, nulls = nonlocality_curves(condition), patch_nulls(family)
    axes.set_ylim(0, top)
    for height, _ in nulls:
        axes.axhline(height, color=MUTED, linewidth=0.8)
    for layer, (curve, colour) in enumerate(zip(curves, layer_colours(len(curves)))):
        epochs, values = [epoch for epoch, _ in curve], [x for _, x in curve]
        low, high = [x.low for x in values], [x.high for x in values]
        axes.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
        style = "dotted" if condition.runs[0].learned.titles_without(layer) else "solid"
        axes.plot(epochs, [x.value for x in values], color=colour, linestyle=style)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_ylabel(metric("nonlocality").axis_label)
    ends = [(curves[i][-1][1].value, f"layer {i + 1}") for i in sorted({0, len(curves) - 1})]
    end_labels(axes, [], [*nulls, *ends])


def nonlocality_training(family: Family, key: str, subtitle: str) -> Drawing | None:
    """Return the figure; None if no condition recorded nonlocality."""
    conditions = [c for c in family.conditions if nonlocality_curves(c)]
    if not conditions:
        return None
    curves = {c.label: nonlocality_curves(c) for c in conditions}
    numbers = [x for layers in curves.values() for curve in layers for _, x in curve]
    top = 1.05 * max([x.high for x in numbers] + [height for height, _ in patch_nulls(family)])
    looks = [look for c in conditions for of_seeds in c.looks.values() for look in of_seeds]
    counts = sorted({x.n for look in looks for x in look.nonlocality or []})
    num_images = "–".join(map(str, counts))
    over = "seeds" if any(c.num_seeds > 1 for c in conditions) else "validation images"
    lacking = dict.fromkeys(
        title
        for c in conditions
        for layer in range(family.num_layers)
        for title in c.runs[0].learned.titles_without(layer)
    )
    dotted = f" Dotted lines are layers without {' or '.join(lacking)}." if lacking else ""
    ends = "; ".join(
        f"{label}: {_range(layers, 0)} in epoch {layers[0][0][0]}, "
        f"{_range(layers, -1)} in epoch {layers[0][-1][0]}"
        for label, layers in curves.items()
    )
    return Drawing(
        key=key,
        title="Nonlocality of every layer while training",
        subtitle=f"{subtitle} · {num_images} validation images",
        reading="A line shows how many patches away the heads of a layer attend on average; the "
        "darkest line is the first layer. A layer becomes more local where its line falls, and "
        f"less local where it rises.{dotted} Bands are 95 % intervals over {over}. Epoch 0 is "
        "before training. Grey lines show attention spread evenly over all patches and over a 3x3 "
        "box.",
        alt=f"Line charts of nonlocality over epochs, a line per layer. Range of layers: {ends}.",
        panels=tuple(
            Panel(c.label, partial(draw_nonlocality, family=family, condition=c, top=top))
            for c in conditions
        ),
        columns=("condition", "layer", "epoch", "nonlocality", "low", "high", "n", "over"),
        rows=tuple(
            (label, layer, epoch, x.value, x.low, x.high, x.n, x.over)
            for label, layers in curves.items()
            for layer, curve in enumerate(layers, 1)
            for epoch, x in curve
        ),
        inks=tuple(layer_colours(family.num_layers)),
        colours=tuple(condition.colour for condition in conditions),
    )


def _range(layers: list[Curve], at: int) -> str:
    values = [curve[at][1].value for curve in layers]
    return f"{min(values):.2f} to {max(values):.2f} patches"
