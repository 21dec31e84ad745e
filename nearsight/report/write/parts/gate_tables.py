"""Tabulate the gates, centres and spans of GPSA."""

from __future__ import annotations

import math
from itertools import repeat
from statistics import fmean, median

from nearsight.report.read import Evidence, Gates, Learned
from nearsight.report.write.cells import Cell
from nearsight.report.write.parts.part_tables import HeadRow, PartTables
from nearsight.report.write.table import Column


def gate_heads(run: Evidence) -> list[HeadRow]:
    """Return layer, head, gate, centre (down, right) and span of the heads with GPSA."""
    return [
        (layer, head, gate, *(centre or (None, None)), span)
        for layer, gates in enumerate(run.learned.layers(Gates), 1)
        if gates is not None
        for head, (gate, centre, span) in enumerate(
            zip(gates.gate or repeat(None), gates.centre, gates.span), 1
        )
    ]


def gate_layers(learned: Learned) -> list[tuple[Cell, ...]]:
    """Return a row for each layer with GPSA."""
    rows: list[tuple[Cell, ...]] = []
    for number, gates in enumerate(learned.layers(Gates), 1):
        if gates is None:
            continue
        shown: list[float | None] = [None] * 3
        if gates.gate:
            shown = [fmean(gates.gate), min(gates.gate), max(gates.gate)]
        away = [math.hypot(*centre) for centre in gates.centre if centre is not None]
        spans = [span for span in gates.span if span is not None]
        shown += [fmean(away), median(spans)] if spans else [None] * 2
        rows.append((f"  layer {number}", *shown, len(gates.span) - len(spans)))
    return rows


GATE_TABLES = PartTables(
    name="gates",
    layer_columns=(
        Column("GPSA", "layer"),
        Column("gate", "gate", "number"),
        Column("lowest", "lowest", "number"),
        Column("highest", "highest", "number"),
        Column("centre", "centre", "number"),
        Column("span", "span", "number"),
        Column("no centre", "no centre", "number"),
    ),
    layer_rows=gate_layers,
    reading="The gate is the share of positional attention, averaged over the heads of the layer. "
    "The centre is the mean distance of the heads' centres from the patch, in patches, and the "
    "span is their median span in square patches. A head may have no centre.",
    heading="gate, centre and span of every head",
    head_columns=(
        Column("gate", "gate", "number", 2),
        Column("centre, down", "centre_down", "number", 2),
        Column("centre, right", "centre_right", "number", 2),
        Column("span", "span", "number", 2),
    ),
    head_rows=gate_heads,
    head_note="The gate is the share of the attention that depends on position alone. The centre "
    "is the place where the positional attention is strongest, in patches from the query. At a "
    "distance of the square root of the span (in square patches) from the centre, the weight has "
    "fallen to 1/e. A dash means that the head has no centre, because its positional attention "
    "grows with the distance, or that the layer is PSA, which has no gates.",
)
