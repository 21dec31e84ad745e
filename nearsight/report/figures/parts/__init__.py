"""Draw what the parts of a model have learned: one module per part, and a table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.parts.gate_panels import gate_depth, gate_drawings, gate_training
from nearsight.report.figures.parts.page_numbers import page_numbers
from nearsight.report.figures.parts.width_panels import gaussian_depth, gaussian_drawings
from nearsight.report.read import Family

Draw = Callable[[Family, str], list[Drawing]]  # the text becomes the end of the figures' keys


@dataclass(frozen=True)
class PartFigures:
    """The figures of a part, for runs or models that have it."""

    measured: Draw
    while_training: Draw | None = None


PART_FIGURES = {
    "locat": PartFigures(gaussian_drawings),
    "gpsa": PartFigures(gate_drawings, gate_training),
}


def part_drawings(family: Family, number: str) -> list[Drawing]:
    """Return the figures of all parts, from the measurement of the trained model."""
    return [each for figures in PART_FIGURES.values() for each in figures.measured(family, number)]


def part_training_drawings(family: Family, number: str) -> list[Drawing]:
    """Return the figures of all parts, from measurements while runs trained."""
    draws = (figures.while_training for figures in PART_FIGURES.values())
    return [each for draw in draws if draw for each in draw(family, number)]


__all__ = [
    "PART_FIGURES",
    "PartFigures",
    "gate_depth",
    "gaussian_depth",
    "page_numbers",
    "part_drawings",
    "part_training_drawings",
]
