"""Describe a table once, and write it as HTML, CSV, JSON or LaTeX, or for the terminal.

A table consists of columns, rows of plain values, a title and a note. Only this module formats the
numbers, so that all formats show the same digits; a format only arranges them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nearsight.core import printable
from nearsight.report.write.cells import (
    NOTHING,
    Cell,
    Kind,
    Marked,
    NumberStyle,
    Value,
    csv_text,
    latex_text,
)
from nearsight.report.write.downloads import Download
from nearsight.report.write.rendering import render
from nearsight.stats import Estimate

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

Format = Literal["html", "csv", "json", "latex", "terminal"]
FORMATS: tuple[Format, ...] = ("html", "csv", "json", "latex", "terminal")
FORMATS_OF_ROWS: dict[str, tuple[Format, ...]] = {
    "data": FORMATS,
    "group": ("html", "latex", "terminal"),
    "reference": ("html", "terminal"),
}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: Its heading for readers.
        name: Its name in CSV and JSON.
        kind: The kind of its values, see ``NumberStyle``.
        digits: Digits after the decimal point.
        unit: Text behind each number.
        plus: Whether positive numbers get a plus sign.
        bounds: The fields of an estimate that CSV and JSON contain besides its value.
        only: The formats that have the column.
        width: The largest number of characters in the terminal.
        wrap: Whether long text is wrapped in the terminal. By default only columns of text are.
        absent: The text of a cell without a value; the terminal always shows a dash.
    """

    heading: str
    name: str
    kind: Kind = "text"
    digits: int = 3
    unit: str = ""
    plus: bool = False
    bounds: tuple[str, ...] = ("low", "high", "n")
    only: tuple[Format, ...] = FORMATS
    width: int | None = None
    wrap: bool | None = None
    absent: str = NOTHING

    @property
    def style(self) -> NumberStyle:
        """The format of its numbers."""
        return NumberStyle(self.kind, self.digits, self.unit, self.plus)


@dataclass(frozen=True)
class Row:
    """A row with a kind, or one that only some formats have.

    A ``group`` is a single cell that heads the rows below it. A ``reference`` is a muted row to
    compare with, such as a null line. CSV and JSON contain neither.
    """

    cells: tuple[Cell, ...]
    kind: Literal["data", "group", "reference"] = "data"
    only: tuple[Format, ...] = FORMATS


@dataclass(frozen=True)
class Shown:
    """A cell and its column, which decides how its value is written."""

    column: Column
    cell: Marked

    @property
    def text(self) -> str:
        """The value as text."""
        return printable(self._written(compact=False))

    @property
    def compact(self) -> str:
        """The value as text for the terminal."""
        return printable(self._written(compact=True))

    def _written(self, compact: bool) -> str:
        value, style = self.cell.value, self.column.style
        if value is None:
            return NOTHING if compact else self.column.absent
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:,}"
        number = value.value if isinstance(value, Estimate) else value
        return style.compact(number) if compact else style.value(number)

    @property
    def estimate(self) -> Estimate | None:
        """The value, if it is an estimate."""
        return self.cell.value if isinstance(self.cell.value, Estimate) else None

    @property
    def interval(self) -> str:
        """The interval of the estimate as text; empty without one."""
        return self.column.style.interval(self.estimate) if self.estimate else ""


@dataclass(frozen=True)
class Table:
    """Rows of values under columns.

    Attributes:
        key: The name of its files and its id on the page.
        columns: Its columns.
        rows: Its rows, from top to bottom.
        title: The heading above it.
        note: What a reader must know to read the numbers.
        layout: How the page sets it: ``numbers`` (right-aligned), ``compact`` (the same with
            intervals behind the numbers), ``summary`` (with the number of images or seeds; a list
            on a phone) or ``plain`` (text).

    >>> columns = (Column("model", "model"), Column("MAD", "mad", kind="number"))
    >>> table = Table("example", columns, (("=vit", 0.25), ("deit", None)))
    >>> print(table.csv(), end="")
    model,mad
    '=vit,0.25
    deit,
    """

    key: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Cell, ...] | Row]
    title: str = ""
    note: str = ""
    layout: Literal["numbers", "compact", "summary", "plain"] = field(
        default="numbers", kw_only=True
    )

    def records(self) -> list[dict[str, Value]]:
        """Return a dictionary for each row, in full precision, with the bounds of its estimates."""
        columns, wide = self.columns_in("csv"), self._with_estimates("csv")
        found = []
        for row in self.rows_in("csv"):
            record: dict[str, Value] = {}
            for column, is_wide, cell in zip(columns, wide, self._cells(row, "csv")):
                value, bounds = cell.value, column.bounds if is_wide else ()
                names = [f"{column.name}_{bound}" for bound in bounds]
                if isinstance(value, Estimate):
                    record[column.name] = value.value
                    record |= {x: getattr(value, bound) for x, bound in zip(names, bounds)}
                else:
                    record[column.name] = value
                    record |= dict.fromkeys(names)
            found.append(record)
        return found

    def csv(self) -> str:
        """Return the table as CSV, for a spreadsheet."""
        records = self.records()
        header = list(records[0]) if records else [x.name for x in self.columns_in("csv")]
        return csv_text(header, [list(record.values()) for record in records])

    def json(self) -> str:
        """Return the table as JSON, for a script: a list of objects with the names of the CSV."""
        return json.dumps(self.records(), indent=1, ensure_ascii=False) + "\n"

    def latex(self) -> str:
        """Return the table as LaTeX, for a paper (needs the booktabs package)."""
        columns = self.columns_in("latex")
        aligned = "".join("l" if column.kind == "text" else "r" for column in columns)
        lines = [
            rf"% \usepackage{{booktabs}}; {printable(self.note)}".replace("\n", " "),
            rf"\begin{{tabular}}{{{aligned}}}",
            r"\toprule",
            " & ".join(latex_text(column.heading) for column in columns) + r" \\",
        ]
        rows = list(self.rows_in("latex"))
        if not rows or rows[0].kind != "group":
            lines.append(r"\midrule")
        for row in rows:
            if row.kind == "group":
                words = latex_text(str(_marked(row.cells[0]).value))
                lines.append(r"\midrule")
                lines.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\emph{{{words}}}}} \\")
            else:
                lines.append(" & ".join(map(_latex_cell, self.shown_cells(row, "latex"))) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def html(self) -> str:
        """Return the table as HTML, with its title, note and downloads."""
        return render("table.html", table=self)

    def rich(self) -> RichTable:
        """Return the table for the terminal; intervals get a column of their own."""
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(printable(self.title)) if self.title else None
        table = RichTable(
            title=title, title_justify="left", box=None, pad_edge=False, collapse_padding=True,
            header_style="bold",
        )  # fmt: skip
        columns, wide = self.columns_in("terminal"), self._with_estimates("terminal")
        for column, is_wide in zip(columns, wide):
            is_text = column.kind == "text"
            table.add_column(
                Text(printable(column.heading)),
                justify="left" if is_text else "right",
                no_wrap=not (is_text if column.wrap is None else column.wrap),
                max_width=column.width,
            )
            if is_wide:
                table.add_column("95 %", justify="right", no_wrap=True)
        for row in self.rows_in("terminal"):
            texts: list[Text] = []
            for shown, is_wide in zip(self.shown_cells(row, "terminal"), wide):
                text = f"{shown.compact}{shown.cell.tag}"
                texts.append(Text(text, style="bold" if shown.cell.bold else ""))
                texts += [Text(_compact_interval(shown))] * is_wide
            table.add_row(*texts, style="dim" if row.kind == "reference" else None)
        return table

    def files(self) -> dict[tuple[str, str], str]:
        """Return the text of every file that the page offers, by name and format."""
        return {
            (self.key, "csv"): self.csv(),
            (self.key, "json"): self.json(),
            (self.key, "latex"): self.latex(),
        }

    def downloads(self) -> list[Download]:
        """Return these files as downloads of the page."""
        return [Download(name, kind, text) for (name, kind), text in self.files().items()]

    def columns_in(self, into: Format) -> list[Column]:
        """Return the columns that a format has."""
        return [column for column in self.columns if into in column.only]

    def rows_in(self, into: Format) -> Iterator[Row]:
        """Yield the rows that a format has."""
        for row in self.rows:
            whole = row if isinstance(row, Row) else Row(row)
            if into in whole.only and into in FORMATS_OF_ROWS[whole.kind]:
                yield whole

    def shown_cells(self, row: Row, into: Format) -> list[Shown]:
        """Return the cells of a row that a format has, with their columns."""
        if row.kind == "group":
            return [Shown(self.columns[0], _marked(row.cells[0]))]
        return [
            Shown(column, cell)
            for column, cell in zip(self.columns_in(into), self._cells(row, into))
        ]

    def _cells(self, row: Row, into: Format) -> list[Marked]:
        pairs = zip(self.columns, row.cells, strict=True)
        return [_marked(cell) for column, cell in pairs if into in column.only]

    def _with_estimates(self, into: Format) -> list[bool]:
        """Tell for every column of a format whether one of its cells has an interval."""
        rows = [self._cells(row, into) for row in self.rows_in(into) if row.kind != "group"]
        return [
            any(isinstance(row[place].value, Estimate) for row in rows)
            for place in range(len(self.columns_in(into)))
        ]


def _marked(cell: Cell) -> Marked:
    return cell if isinstance(cell, Marked) else Marked(cell)


def _latex_cell(shown: Shown) -> str:
    text = latex_text(shown.text)
    if shown.cell.bold:
        text = rf"\textbf{{{text}}}"
    if shown.estimate is None:
        return text
    low, high = shown.column.style.bounds(shown.estimate)
    return f"{text} [{latex_text(low)}, {latex_text(high)}]"


def _compact_interval(shown: Shown) -> str:
    if shown.estimate is None:
        return ""
    style = shown.column.style
    return f"{style.compact(shown.estimate.low)} to {style.compact(shown.estimate.high)}"
