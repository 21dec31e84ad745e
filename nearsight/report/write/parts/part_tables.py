"""Declare the tables of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearsight.report.read import Evidence, Learned
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import Column

HeadRow = tuple[int | float | None, ...]  # layer and head, counted from 1, then the numbers


@dataclass(frozen=True, kw_only=True)
class PartTables:
    """The tables of a part.

    Args:
        name: The name of its tables and of its CSV file.
        layer_columns: The columns of the table in the terminal, which has a line per layer.
        layer_rows: The function that returns the rows of that table; no rows for a model without
            the part.
        reading: How to read that table; printed below it.
        heading: The heading of the table on the page, which has a line per head.
        head_columns: The columns of the table on the page, after layer and head.
        head_rows: The function that returns the rows of that table. None: the part has no numbers
            for single heads.
        head_note: The note of the table on the page.
    """

    name: str
    layer_columns: tuple[Column, ...]
    layer_rows: Callable[[Learned], Sequence[tuple[Cell, ...]]]
    reading: str
    heading: str = ""
    head_columns: tuple[Column, ...] = ()
    head_rows: Callable[[Evidence], Sequence[HeadRow]] | None = None
    head_note: str = ""

    @property
    def page_columns(self) -> tuple[Column, ...]:
        """The columns of the table on the page."""
        return (Column("layer.head", "layer.head"), *self.head_columns)

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns of the CSV file after those that name the run; numbers are not rounded."""
        names = ("layer", "head", *(column.name for column in self.head_columns))
        return tuple(Column(name, name, "number") for name in names)
