"""The score of every layer, and of every model, beside how far its heads look (MAD)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.read import EvaluatedFolder, ink_name, last_layers, model_inks
from nearsight.runs.records import ResultNumber, TaskResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("mIoU", "top1 of 20", "top1")  # the number of a method that is drawn
Point = tuple[str, int, float, ResultNumber]  # model, layer, MAD, score


def draw_scores(axes: Axes, points: Sequence[Point], inks: dict[str, str]) -> None:
    """Draw a point for every layer, its number beside it, layers of a model joined by a line."""
    for model in dict.fromkeys(point[0] for point in points):
        own = sorted((x for x in points if x[0] == model), key=lambda x: x[1])
        ink = inks[model]
        places = [mad for _, _, mad, _ in own]
        values = [100 * number.value for *_, number in own]
        axes.plot(places, values, color=ink, linewidth=0.8, alpha=0.5)
        for _, layer, mad, number in own:
            axes.plot([mad, mad], [100 * number.low, 100 * number.high], color=ink, linewidth=1)
            axes.plot([mad], [100 * number.value], "o", color=ink, markersize=3.5)
            axes.annotate(
                str(layer), (mad, 100 * number.value), (3, 3), textcoords="offset points",
                fontsize=6.5,
            )  # fmt: skip
    axes.set_xlabel("MAD of the layer (grid diagonals)")
    axes.set_ylabel("score (%)")
    axes.set_ylim(bottom=0)


def layer_scores(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of scores against MAD; None without a folder that has both."""
    by_method: dict[str, list[Point]] = {}
    for folder in folders:
        mads = folder.layer_distances
        for result in folder.record.results:
            number = _shown(result)
            if result.control is None and number is not None and result.layer <= len(mads):
                title = f"{result.method}, {number.name} on {result.data.name}"
                point = folder.name, result.layer, mads[result.layer - 1], number
                by_method.setdefault(title, []).append(point)
    if not by_method:
        return None
    inks = model_inks(folders)
    names = ", ".join(f"{folder.name} ({ink_name(inks[folder.name])})" for folder in folders)
    return Drawing(
        key=key,
        title="Are local layers better?",
        subtitle=f"score of a layer's features beside its mean attention distance · {names}",
        reading="Every point is a layer, named by its number. Lines: 95 % over images. Points to "
        "the left attend locally; points on top have better features.",
        alt=f"Scores of {sum(map(len, by_method.values()))} layers against their distance.",
        panels=tuple(
            Panel(title, partial(draw_scores, points=points, inks=inks))
            for title, points in by_method.items()
        ),
        columns=("method", "model", "layer", "mad", "score", "low", "high"),
        rows=tuple(
            (title, model, layer, mad, number.value, number.low, number.high)
            for title, points in by_method.items()
            for model, layer, mad, number in points
        ),
        inks=tuple(inks.values()),
    )


def draw_models(axes: Axes, points: Sequence[Point], inks: dict[str, str]) -> None:
    """Draw a point with its interval for every model."""
    for model, _, mad, number in points:
        low, high = 100 * number.low, 100 * number.high
        axes.plot([mad, mad], [low, high], color=inks[model], linewidth=1)
        axes.plot([mad], [100 * number.value], "o", color=inks[model], markersize=4)
    axes.set_xlabel("mean MAD of all layers (grid diagonals)")
    axes.set_ylabel("score (%)")
    axes.set_ylim(bottom=0)


def model_scores(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of models' scores against their mean MAD; None for fewer than two."""
    by_method: dict[str, list[Point]] = {}
    for folder in folders:
        if not folder.layer_distances:
            continue
        for result in last_layers(folder).values():
            if number := _shown(result):
                title = f"{result.method}, {number.name} on {result.data.name}"
                point = folder.name, result.layer, fmean(folder.layer_distances), number
                by_method.setdefault(title, []).append(point)
    by_method = {title: points for title, points in by_method.items() if len(points) > 1}
    if not by_method:
        return None
    inks = model_inks(folders)
    names = ", ".join(f"{folder.name} ({ink_name(inks[folder.name])})" for folder in folders)
    return Drawing(
        key=key,
        title="Are local models better?",
        subtitle=f"score of the last layer's features beside the mean over layers · {names}",
        reading="Every point is a model. Lines: 95 % over images. Points to the left attend "
        "locally; points on top have better features. Few models that differ in more than "
        "their locality do not show a cause.",
        alt=f"Scores of {max(map(len, by_method.values()))} models against their mean distance.",
        panels=tuple(
            Panel(title, partial(draw_models, points=points, inks=inks))
            for title, points in by_method.items()
        ),
        columns=("method", "model", "layer", "mean_mad", "score", "low", "high"),
        rows=tuple(
            (title, model, layer, mad, number.value, number.low, number.high)
            for title, points in by_method.items()
            for model, layer, mad, number in points
        ),
        inks=tuple(inks.values()),
    )


def _shown(result: TaskResult) -> ResultNumber | None:
    known = {number.name: number for number in result.numbers}
    return next((known[name] for name in SHOWN if name in known), None)
