"""Tabulate what the parts of a model have learned, one module per part.

The terminal shows a line per layer, the page a line per head, and a CSV file every head of every
run. To add a part, declare its ``PartTables`` in a module and add a line to ``PART_TABLES``; its
figures are in ``report/figures/parts``.
"""

from __future__ import annotations

from collections.abc import Iterator

from nearsight.report.read import Evidence, Family, learned_in_measurement
from nearsight.report.write.parts.gate_tables import GATE_TABLES
from nearsight.report.write.parts.gaussian_tables import GAUSSIAN_TABLES
from nearsight.report.write.parts.part_tables import PartTables
from nearsight.report.write.table import Table
from nearsight.report.write.tables import RUN_COLUMNS, named_runs
from nearsight.runs import MeasuredFolder

# In the order in which they are shown.
PART_TABLES: tuple[PartTables, ...] = (GAUSSIAN_TABLES, GATE_TABLES)


def terminal_part_tables(found: MeasuredFolder) -> Iterator[tuple[Table, str]]:
    """Yield the table of each part that a measured model has, and how to read it."""
    learned = learned_in_measurement(found.measure, found.path)
    for part in PART_TABLES:
        if rows := part.layer_rows(learned):
            yield Table(part.name, part.layer_columns, rows, found.record.name), part.reading


def head_part_tables(run: Evidence) -> dict[str, Table]:
    """Return the tables of a run's parts with a line per head, by their headings on the page."""
    found = {}
    for part in PART_TABLES:
        if part.head_rows and (rows := part.head_rows(run)):
            shown = [(f"{layer}.{head}", *numbers) for layer, head, *numbers in rows]
            columns, note = part.page_columns, part.head_note
            found[part.heading] = Table(part.name, columns, shown, note=note, layout="compact")
    return found


def all_part_heads(families: list[Family]) -> list[Table]:
    """Return a table for each part that some run has, with every head of every run."""
    found = []
    for part in PART_TABLES:
        of = part.head_rows
        rows = [(*named, *x) for named, run in named_runs(families) for x in of(run)] if of else []
        if rows:
            found.append(Table(part.name, (*RUN_COLUMNS, *part.file_columns), rows))
    return found


__all__ = [
    "PART_TABLES",
    "PartTables",
    "all_part_heads",
    "head_part_tables",
    "terminal_part_tables",
]
