"""Draw the IoU of every class with its interval over images, models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearsight.report.figures.drawing import Drawing, Panel, name_rows
from nearsight.report.read import EvaluatedFolder, data_label, ink_name, last_layers, model_inks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bounds = list[float]  # value, low, high
PerClass = dict[str, Bounds]


def draw_bars(axes: Axes, classes: Sequence[str], found: Sequence[tuple[str, PerClass]]) -> None:
    """Draw a bar for every class and model, with its interval as a line."""
    height = 0.8 / len(found)
    for number, (ink, per_class) in enumerate(found):
        for row, name in enumerate(classes):
            if name not in per_class:
                continue
            value, low, high = (100 * x for x in per_class[name])
            place = row - 0.4 + height * (number + 0.5)
            axes.barh(place, value, 0.9 * height, color=ink, alpha=0.55, linewidth=0)
            axes.plot([low, high], [place, place], color=ink, linewidth=1)
    name_rows(axes, classes)
    axes.set_xlim(left=0)
    axes.set_xlabel("IoU (%)")


def class_bars(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of the IoU of every class; None if no model has such numbers."""
    methods: dict[tuple[str, str], list[tuple[EvaluatedFolder, PerClass, int]]] = {}
    for folder in folders:
        for result in last_layers(folder).values():
            for number in result.numbers:
                if per_class := number.details.get("per_class"):
                    at = result.method, result.data.name
                    methods.setdefault(at, []).append((folder, per_class, result.data.num_val))
    if not methods:
        return None
    inks = model_inks(folders)
    panels, rows = [], []
    longest = 0
    for (method, data), found in methods.items():
        classes = list(dict.fromkeys(name for _, per_class, _ in found for name in per_class))
        longest = max(longest, len(classes))
        bars = [(inks[folder.name], per_class) for folder, per_class, _ in found]
        panels.append(
            Panel(
                f"{method} on {data_label(data)}", partial(draw_bars, classes=classes, found=bars)
            )
        )
        for folder, per_class, num in found:
            rows += [(folder.name, method, data, name, *x, num) for name, x in per_class.items()]
    names = ", ".join(f"{folder.name} ({ink_name(inks[folder.name])})" for folder in folders)
    return Drawing(
        key=key,
        title="Which classes do frozen features tell apart?",
        subtitle=f"IoU of every class · {names}",
        reading="A bar is the intersection over union (IoU) of a class over all images, and the "
        "line its 95 % interval over images. A class with few images has a wide interval.",
        alt=f"IoU of {longest} classes for {len(folders)} models.",
        panels=tuple(panels),
        columns=("model", "method", "data", "class", "iou", "low", "high", "num_images"),
        rows=tuple(rows),
        inks=tuple(inks.values()),
        panel_size=(3.4, 0.9 + longest * (0.1 + 0.09 * len(folders))),
    )
