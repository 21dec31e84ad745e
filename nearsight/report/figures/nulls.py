"""Null lines of a figure: what no learning, or no image, would give.

Uniform attention and the 3x3 box belong to a grid. The architecture at random initialisation and
the model on images with shuffled patches were measured; where a result lacks them they are left
out. Random initialisation is one line (the runs of a family share an architecture), shuffled
patches are one line per condition, in its colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from nearsight.report.conditions import Condition, Family
from nearsight.report.evidence import Evidence
from nearsight.report.figures.drawing import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF_GRID = (("uniform", "uniform"), ("box", "3x3 box"))
RANDOM, SHUFFLED = "random_init", "shuffled_patches"
RANDOM_LINE: Literal["dashed"] = "dashed"
SHUFFLED_LINE: Literal["dotted"] = "dotted"
READING = (
    "Grey lines: attention spread over all patches, over a 3x3 box, and (dashed) the same "
    "architecture at random initialisation. Dotted: the model on images with shuffled patches."
)


def grid_null(family: Family, name: str, metric: str, layer: int) -> float:
    """``uniform`` or ``box`` on the grid of a layer (counted from 0)."""
    return family.first.null(layer)[f"{name}_{metric}"]


def random_nulls(family: Family, metric: str) -> list[float]:
    """Layer means at random initialisation, over the runs of the family; empty if not measured."""
    return _measured([run for c in family.conditions for run in c.runs], RANDOM, metric)


def shuffled_nulls(condition: Condition, metric: str) -> list[float]:
    """Layer means on images with shuffled patches, over the runs of a condition, or empty."""
    return _measured(condition.runs, SHUFFLED, metric)


def _measured(runs: Sequence[Evidence], name: str, metric: str) -> list[float]:
    found = [run.measure["null"].get(name) for run in runs]
    if None in found or not found:
        return []
    layers = zip(*(null[f"layer_mean_{metric}"] for null in found))
    return [sum(values) / len(values) for values in layers]


def draw_nulls(axes: Axes, family: Family, metric: str, layer: int) -> list[tuple[float, str]]:
    """Horizontal lines of one layer; the heights and names of those that need a name."""
    named = [(grid_null(family, key, metric, layer), name) for key, name in OF_GRID]
    for height, _ in named:
        axes.axhline(height, color=MUTED, linewidth=0.8)
    if untrained := random_nulls(family, metric):
        axes.axhline(untrained[layer], color=MUTED, linewidth=0.8, linestyle=RANDOM_LINE)
        named.append((untrained[layer], "random init"))
    for condition in family.conditions:
        if shuffled := shuffled_nulls(condition, metric):
            colour = condition.colour
            axes.axhline(shuffled[layer], color=colour, linewidth=0.9, linestyle=SHUFFLED_LINE)
            if len(family.conditions) == 1:
                named.append((shuffled[layer], "shuffled"))
    return named
