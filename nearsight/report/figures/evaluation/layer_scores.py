"""Draw the score of every layer, and of every model, beside its mean attention distance (MAD)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.read import EvaluatedFolder, data_label, ink_name, last_layers, model_inks
from nearsight.runs.records import ResultNumber, TaskResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("mIoU", "top1 of 20", "top1")  # the first of these that a method has is drawn
Point = tuple[str, int, float, ResultNumber]  # model, layer, MAD, score
Points = dict[str, list[Point]]  # by method, number and data set
Draw = Callable[..., None]


def draw_layers(axes: Axes, points: Sequence[Point], inks: dict[str, str]) -> None:
    """Draw a point with its number for every layer, and a line through the layers of a model."""
    for model in dict.fromkeys(point[0] for point in points):
        own = sorted((x for x in points if x[0] == model), key=lambda x: x[1])
        places = [mad for _, _, mad, _ in own]
        values = [100 * number.value for *_, number in own]
        axes.plot(places, values, color=inks[model], linewidth=0.8, alpha=0.5)
        for (_, layer, mad, _), value in zip(own, values):
            axes.annotate(
                str(layer), (mad, value), (3, 3), textcoords="offset points", fontsize=6.5
            )
    draw_models(axes, points, inks)
    axes.set_xlabel("MAD of the layer (grid diagonals)")


def draw_models(axes: Axes, points: Sequence[Point], inks: dict[str, str]) -> None:
    """Draw a point with its interval for every model."""
    for model, _, mad, number in points:
        low, high = 100 * number.low, 100 * number.high
        axes.plot([mad, mad], [low, high], color=inks[model], linewidth=1)
        axes.plot([mad], [100 * number.value], "o", color=inks[model], markersize=3.5)
    axes.set_xlabel("mean MAD of all layers (grid diagonals)")
    axes.set_ylabel("score (%)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def layer_scores(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of layers' scores against their MAD.

    It is None unless several layers of a model were evaluated and their MAD is known.
    """
    found: Points = {}
    for folder in folders:
        mads = folder.layer_distances
        for result in folder.record.results:
            if result.control is None and result.layer <= len(mads):
                _note(found, folder, result, mads[result.layer - 1])
    several = {title for title, points in found.items() if len({x[1] for x in points}) > 1}
    found = {title: points for title, points in found.items() if title in several}
    return _drawing(
        key, folders, found, draw_layers, "Are local layers better?",
        "score of a layer's features beside its mean attention distance",
        "Every point is a layer, with its number. Layers further left attend more locally; layers "
        "further up have better features. Vertical lines are 95 % intervals over images.",
        f"Scores of {sum(map(len, found.values()))} layers against their distance.",
    )  # fmt: skip


def model_scores(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of models' scores against their mean MAD; None for fewer than two."""
    found: Points = {}
    for folder in folders:
        for result in last_layers(folder).values() if folder.layer_distances else ():
            _note(found, folder, result, fmean(folder.layer_distances))
    found = {title: points for title, points in found.items() if len(points) > 1}
    return _drawing(
        key, folders, found, draw_models, "Are local models better?",
        "score of the last layer's features beside the mean attention distance of all layers",
        "Every point is a model. Models further left attend more locally; models further up have "
        "better features. Vertical lines are 95 % intervals over images. If the models differ in "
        "more than their locality, the figure does not show that locality causes a difference.",
        f"Scores of {max(map(len, found.values()), default=0)} models against their distance.",
    )  # fmt: skip


def _note(found: Points, folder: EvaluatedFolder, result: TaskResult, mad: float) -> None:
    """Add the point of a result, if it has a number that is drawn."""
    known = {number.name: number for number in result.numbers}
    number = next((known[name] for name in SHOWN if name in known), None)
    if number is not None:
        title = f"{result.method}, {number.name} on {data_label(result.data.name)}"
        found.setdefault(title, []).append((folder.name, result.layer, mad, number))


def _drawing(
    key: str,
    folders: Sequence[EvaluatedFolder],
    found: Points,
    draw: Draw,
    title: str,
    subtitle: str,
    reading: str,
    alt: str,
) -> Drawing | None:
    """Return a figure with a panel for every method; None without points."""
    if not found:
        return None
    inks = model_inks(folders)
    names = ", ".join(f"{folder.name} ({ink_name(inks[folder.name])})" for folder in folders)
    return Drawing(
        key=key,
        title=title,
        subtitle=f"{subtitle} · {names}",
        reading=reading,
        alt=alt,
        panels=tuple(
            Panel(method, partial(draw, points=points, inks=inks))
            for method, points in found.items()
        ),
        columns=("method", "model", "layer", "mad", "score", "low", "high"),
        rows=tuple(
            (method, model, layer, mad, number.value, number.low, number.high)
            for method, points in found.items()
            for model, layer, mad, number in points
        ),
        inks=tuple(inks.values()),
    )
