"""Draw and describe the null lines of a figure: values to compare a trained model with.

The values of uniform attention and of attention spread over a 3x3 box follow from the grid. Those
of the same architecture at random initialisation, and of images with shuffled patches, were
measured; their lines are left out if they were not. Random initialisation has one line for each
architecture (named after it if there are two), and no line if there are more than two. Shuffled
patches have one line for each condition, in its colour.
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
MOST_ARCHITECTURES = 2  # with more, random initialisation is not drawn
LONGEST_NAME = 14  # characters of the name of an architecture that fit at the end of a line
UNREAD_TEXT = (
    " Hollow marks are unread layers: what their patches compute reaches no output of the model. "
    "Means, minima and counts leave these layers out."
)


def unread_text(family: Family) -> str:
    """Explain hollow marks; empty if there are none."""
    return UNREAD_TEXT if any(condition.unread for condition in family.conditions) else ""


def face(condition: ConditionRuns, layer: int, colour: str) -> str:
    """Return the colour inside a mark; the marks of unread layers are hollow.

    Args:
        condition: The condition whose head or layer is drawn.
        layer: The layer, counted from 0.
        colour: The colour of the mark.
    """
    return "none" if layer in condition.unread else colour


def grid_null(family: Family, name: str, metric: str, layer: int) -> float:
    """Return the null line ``uniform`` or ``box`` of a metric on the grid of a layer (from 0)."""
    return family.first.null(layer)[f"{name}_{metric}"]


def random_nulls(family: Family, condition: ConditionRuns, metric: str) -> list[float]:
    """Return the layer means of a condition's architecture at random initialisation.

    They are averaged over all runs of this architecture in the family; empty if not measured.
    """
    runs = [run for c in family.conditions for run in c.runs]
    same = [run for run in runs if run.architecture == condition.runs[0].architecture]
    return _measured(same, RANDOM, metric)


def named_randoms(family: Family, metric: str) -> list[tuple[str, list[float]]]:
    """Return the name and the layer means of every architecture that was measured untrained.

    The name is that of the model, or of its first condition if two architectures share a name.
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
    """Return the lines of random initialisation that a figure has room for, with their labels."""
    found = named_randoms(family, metric)
    if len(found) == 1 and len({c.runs[0].architecture for c in family.conditions}) == 1:
        return [("random init", found[0][1])]
    if len(found) > MOST_ARCHITECTURES:
        return []
    short = all(len(name) <= LONGEST_NAME for name, _ in found)
    return [(f"init {name}" if short else "random init", layers) for name, layers in found]


def shuffled_nulls(condition: ConditionRuns, metric: str) -> list[float]:
    """Return the layer means on images with shuffled patches, averaged over a condition's runs.

    The list is empty if some run was not measured on such images.
    """
    return _measured(condition.runs, SHUFFLED, metric)


def _measured(runs: Sequence[Evidence], name: str, metric: str) -> list[float]:
    nulls = [run.measure.null.measured.get(name) for run in runs]
    found = [means for null in nulls if null and (means := null.layer_means(metric))]
    if len(found) < len(runs) or not found:
        return []
    layers = zip(*found)
    return [sum(values) / len(values) for values in layers]


def nulls_text(family: Family) -> str:
    """Explain the null lines that are drawn."""
    text = "Grey lines show attention spread evenly over all patches and over a 3x3 box."
    if drawn_randoms(family, "mad"):
        text += " Dashed grey lines show the same architecture at random initialisation."
    if any(shuffled_nulls(condition, "mad") for condition in family.conditions):
        text += " Dotted lines show the model on images with shuffled patches."
    return text


def draw_nulls(axes: Axes, family: Family, metric: str, layer: int) -> list[tuple[float, str]]:
    """Draw the null lines of a layer, and return the heights and names of those to label."""
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
