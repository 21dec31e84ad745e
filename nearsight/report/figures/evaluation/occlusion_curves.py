"""Draw accuracy against the share of an image that is hidden, shuffled or pasted over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.read import EvaluatedFolder, ink_name, last_layers, model_inks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "random": "Random patches dropped",
    "centre": "Patches dropped from the middle outwards",
    "salient": "Most attended patches dropped first",
    "shuffle": "Cells in random order",
    "paste": "A rectangle of another image",
}
Curve = tuple[str, dict[str, Any]]


def draw_curves(axes: Axes, curves: Sequence[Curve], kind: str) -> None:
    """Draw the curve of every model with its interval."""
    for ink, details in curves:
        levels = details["levels"]
        values, low, high = (
            [100 * point[part] for point in details["accuracy"]] for part in range(3)
        )
        places = range(len(levels)) if kind == "shuffle" else [100 * level for level in levels]
        axes.fill_between(places, low, high, color=ink, alpha=0.22, linewidth=0)
        axes.plot(places, values, color=ink, marker="o", markersize=2.5)
        if kind == "shuffle":
            axes.set_xticks(list(places), [str(level) for level in levels])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("cells" if kind == "shuffle" else "share of the image removed (%)")
    axes.set_ylabel("accuracy (%)")


def occlusion_curves(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of all kinds of occlusion; None without such an evaluation."""
    inks = model_inks(folders)
    curves: dict[str, list[Curve]] = {}
    rows: list[tuple[Any, ...]] = []
    images, words = 0, []
    for folder in folders:
        for result in last_layers(folder).values():
            if result.task != "occlusion":
                continue
            images = result.data.num_val
            words.append(f"{folder.name} ({ink_name(inks[folder.name])})")
            for number in result.numbers:
                kind = number.name.removesuffix(" area")
                if kind not in TITLES:
                    continue
                curves.setdefault(kind, []).append((inks[folder.name], number.details))
                pairs = zip(number.details["levels"], number.details["accuracy"])
                rows += [(folder.name, kind, level, *point) for level, point in pairs]
    if not curves:
        return None
    return Drawing(
        key=key,
        title="How much of an image may be missing?",
        subtitle=f"accuracy over {images:,} images · {', '.join(dict.fromkeys(words))}",
        reading="Where a curve stays high, the model still recognises the class in what is left of "
        "the image. What is hidden differs between images and between draws. Bands are 95 % "
        "intervals over images.",
        alt=f"Accuracy curves of {len(curves)} kinds of occlusion.",
        panels=tuple(
            Panel(TITLES[kind], partial(draw_curves, curves=found, kind=kind))
            for kind, found in curves.items()
        ),
        columns=("model", "kind", "level", "accuracy", "low", "high"),
        rows=tuple(rows),
        inks=tuple(inks.values()),
    )
