"""Null lines of a figure: what no learning, or no image, would give.

Uniform attention and the 3x3 box belong to a grid. The architecture at random initialisation and
the model on images with shuffled patches were measured; where a result lacks them they are left
out. Random initialisation is one line per architecture, named after it where there are two and
not drawn where there are more; shuffled patches are one line per condition, in its colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from nearsight.report.figures.drawing import MUTED
from nearsight.report.read import ConditionRuns, Evidence, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF_GRID = (("uniform", "uniform"), ("box", "3x3 box"))
RANDOM, SHUFFLED = "random_init", "shuffled_patches"
RANDOM_LINE: Literal["dashed"] = "dashed"
SHUFFLED_LINE: Literal["dotted"] = "dotted"
MOST_ARCHITECTURES = 2  # whose random initialisation is drawn
LONGEST_NAME = 14  # of an architecture at a line's end


UNREAD_TEXT = (
    " Hollow: layers whose patches no output reads; they are left out of means, minima and counts."
)


def unread_text(family: Family) -> str:
    """Say what hollow marks are, where there are any."""
    return UNREAD_TEXT if any(condition.unread for condition in family.conditions) else ""


def face(condition: ConditionRuns, layer: int, colour: str) -> str:
    """The colour inside a mark: none for a layer (counted from 0) that no output reads."""
    return "none" if layer in condition.unread else colour


def grid_null(family: Family, name: str, metric: str, layer: int) -> float:
    """``uniform`` or ``box`` on the grid of a layer (counted from 0)."""
    return family.first.null(layer)[f"{name}_{metric}"]


def random_nulls(family: Family, condition: ConditionRuns, metric: str) -> list[float]:
    """Layer means of a condition's architecture at random initialisation, over all its runs here.

    Empty if not measured.
    """
    runs = [run for c in family.conditions for run in c.runs]
    same = [run for run in runs if run.architecture == condition.runs[0].architecture]
    return _measured(same, RANDOM, metric)


def named_randoms(family: Family, metric: str) -> list[tuple[str, list[float]]]:
    """The same once per architecture: the model's name, and the layer means where measured.

    Where two architectures share a name each takes its first condition's.
    """
    first = {c.runs[0].architecture: c for c in reversed(family.conditions)}
    conditions = list(reversed(first.values()))
    models = [condition.runs[0].model_name for condition in conditions]
    names = [
        model if models.count(model) == 1 else condition.label
        for model, condition in zip(models, conditions, strict=True)
    ]
    found = [random_nulls(family, condition, metric) for condition in conditions]
    return [(name, layers) for name, layers in zip(names, found, strict=True) if layers]


def drawn_randoms(family: Family, metric: str) -> list[tuple[str, list[float]]]:
    """Those that a figure has room for, with the words at their lines."""
    found = named_randoms(family, metric)
    if len(found) == 1 and len({c.runs[0].architecture for c in family.conditions}) == 1:
        return [("random init", found[0][1])]
    if len(found) > MOST_ARCHITECTURES:
        return []
    short = all(len(name) <= LONGEST_NAME for name, _ in found)
    return [(f"init {name}" if short else "random init", layers) for name, layers in found]


def shuffled_nulls(condition: ConditionRuns, metric: str) -> list[float]:
    """Layer means on images with shuffled patches, over the runs of a condition, or empty."""
    return _measured(condition.runs, SHUFFLED, metric)


def _measured(runs: Sequence[Evidence], name: str, metric: str) -> list[float]:
    nulls = [run.measure.null.measured.get(name) for run in runs]
    found = [means for null in nulls if null and (means := null.layer_means(metric))]
    if len(found) < len(runs) or not found:
        return []
    layers = zip(*found)
    return [sum(values) / len(values) for values in layers]


def nulls_text(family: Family) -> str:
    """What the lines are, in words; only of those that are drawn."""
    text = "Grey lines: attention spread over all patches and over a 3x3 box."
    if drawn_randoms(family, "mad"):
        text += " Dashed grey: the same architecture at random initialisation."
    if any(shuffled_nulls(condition, "mad") for condition in family.conditions):
        text += " Dotted: the model on images with shuffled patches."
    return text


def draw_nulls(axes: Axes, family: Family, metric: str, layer: int) -> list[tuple[float, str]]:
    """Horizontal lines of one layer; the heights and names of those that need a name."""
    named = [(grid_null(family, key, metric, layer), name) for key, name in OF_GRID]
    for height, _ in named:
        axes.axhline(height, color=MUTED, linewidth=0.8)
    for name, untrained in drawn_randoms(family, metric):
        axes.axhline(untrained[layer], color=MUTED, linewidth=0.8, linestyle=RANDOM_LINE)
        named.append((untrained[layer], name))
    for condition in family.conditions:
        if shuffled := shuffled_nulls(condition, metric):
            colour = condition.colour
            axes.axhline(shuffled[layer], color=colour, linewidth=0.9, linestyle=SHUFFLED_LINE)
            if len(family.conditions) == 1:
                named.append((shuffled[layer], "shuffled"))
    return named
