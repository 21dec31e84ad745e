"""Draw the score of every layer's features beside the mean attention distance of its heads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.read import EvaluatedFolder, ink_name, model_inks
from nearsight.runs.records import MEASURE_FILE, ResultNumber, TaskResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("mIoU", "top1 of 20", "top1")  # which number of a method is drawn
Point = tuple[str, int, float, ResultNumber]  # model, layer, MAD, score


def layer_distances(folder: Path) -> list[float]:
    """Return the mean MAD of the heads of every layer; empty if the folder was not measured."""
    if not (folder / MEASURE_FILE.name).is_file():
        return []
    layers = [layer.metrics["mad"].per_head for layer in MEASURE_FILE.read(folder).layers]
    return [sum(heads) / len(heads) for heads in layers]


def draw_scores(axes: Axes, points: Sequence[Point], inks: dict[str, str]) -> None:
    """Draw a point with its number for every layer, and a line through the layers of a model."""
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
    """Return the figure of scores against MAD; None if no folder has both."""
    by_method: dict[str, list[Point]] = {}
    for folder in folders:
        mads = layer_distances(folder.path)
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
        reading="Every point is a layer with its number. Layers to the left attend more locally, "
        "layers further up have better features. Vertical lines are 95 % intervals over images.",
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


def _shown(result: TaskResult) -> ResultNumber | None:
    known = {number.name: number for number in result.numbers}
    return next((known[name] for name in SHOWN if name in known), None)
