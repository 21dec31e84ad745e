"""Tabulate the Gaussians that GAug has learned."""

from __future__ import annotations

from nearsight.report.read import Gaussians, Learned
from nearsight.report.write.cells import Cell
from nearsight.report.write.parts.part_tables import PartTables
from nearsight.report.write.table import Column


def gaussian_layers(learned: Learned) -> list[tuple[Cell, ...]]:
    """Return a row for each layer with GAug."""
    rows: list[tuple[Cell, ...]] = []
    for number, gaussians in enumerate(learned.layers(Gaussians), 1):
        if gaussians is None:
            continue
        width, strength = gaussians.deviation, gaussians.strength
        low, _, median, _, high = width.percentiles
        near = gaussians.near_bounds or (None, None)
        ends = strength.percentiles[0], strength.percentiles[-1]
        numbers = (width.mean.value, low, median, high, *near, strength.mean.value, *ends)
        rows.append((f"  layer {number}", *numbers))
    return rows


GAUSSIAN_TABLES = PartTables(
    name="gaussians",
    layer_columns=(
        Column("Gaussians", "layer"),
        Column("width", "width", "number"),
        Column("5 %", "width_5", "number"),
        Column("median", "width_50", "number"),
        Column("95 %", "width_95", "number"),
        Column("near 0", "near_lowest", "share"),
        Column("near max", "near_highest", "share"),
        Column("strength", "strength", "number"),
        Column("5 %", "strength_5", "number"),
        Column("95 %", "strength_95", "number"),
    ),
    layer_rows=gaussian_layers,
    reading="The width is the standard deviation of a Gaussian in patches. 'near 0' and 'near max' "
    "are the shares of widths within 5 % of either end of their range.",
)
