"""One table for every reader: the page, a spreadsheet, a script, a paper and the terminal.

A table is columns, rows of plain values, and what has to be said beside them. The numbers are
formatted here and nowhere else; each format then decides only how to set them.
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
    """A column: its heading, its name in CSV and JSON, and how its numbers are written.

    ``bounds`` are the fields of an estimate that CSV and JSON get besides its value. ``only`` are
    the formats that have the column. ``width`` and ``wrap`` are for the terminal: the most
    characters, and whether long text takes several lines (by default in columns of text only).
    ``absent`` is what a page says where there is no value; the terminal has a dash.
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
        return NumberStyle(self.kind, self.digits, self.unit, self.plus)


@dataclass(frozen=True)
class Row:
    """A row that is not plain data.

    A ``group`` is one cell that heads the rows below it, a ``reference`` a muted row to compare
    with (a null line); files hold neither.
    """

    cells: tuple[Cell, ...]
    kind: Literal["data", "group", "reference"] = "data"
    only: tuple[Format, ...] = FORMATS


@dataclass(frozen=True)
class Shown:
    """A cell as text, with its column and its marks."""

    column: Column
    cell: Marked

    @property
    def text(self) -> str:
        return printable(self._written(compact=False))

    @property
    def compact(self) -> str:
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
        return self.cell.value if isinstance(self.cell.value, Estimate) else None

    @property
    def interval(self) -> str:
        return self.column.style.interval(self.estimate) if self.estimate else ""


@dataclass(frozen=True)
class Table:
    """Rows under columns; ``key`` names its files and its place on the page.

    ``layout`` is how the page sets it: ``numbers`` (right-aligned), ``compact`` (the same with
    intervals behind the numbers), ``summary`` (with the number of images or seeds; a list on a
    phone) or ``plain`` (text).

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
        """Return a dict per row: full precision, an estimate as several entries."""
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
        """Write the table for a spreadsheet."""
        records = self.records()
        header = list(records[0]) if records else [x.name for x in self.columns_in("csv")]
        return csv_text(header, [list(record.values()) for record in records])

    def json(self) -> str:
        """Write the table for a script: a list of objects, the names as in CSV."""
        return json.dumps(self.records(), indent=1, ensure_ascii=False) + "\n"

    def latex(self) -> str:
        """Write the table for a paper (it needs the booktabs package)."""
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
                lines.append(" & ".join(map(_latex_cell, self.shown(row, "latex"))) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def html(self) -> str:
        """Write the table for the page, with its title, note and downloads."""
        return render("table.html", table=self)

    def rich(self) -> RichTable:
        """Lay the table out for the terminal; an interval gets a column of its own."""
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
            for shown, is_wide in zip(self.shown(row, "terminal"), wide):
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
        """Return the links of those files."""
        return [Download(name, kind, text) for (name, kind), text in self.files().items()]

    def columns_in(self, into: Format) -> list[Column]:
        """Return the columns that a format has."""
        return [column for column in self.columns if into in column.only]

    def rows_in(self, into: Format) -> Iterator[Row]:
        """Go through the rows that a format has."""
        for row in self.rows:
            whole = row if isinstance(row, Row) else Row(row)
            if into in whole.only and into in FORMATS_OF_ROWS[whole.kind]:
                yield whole

    def shown(self, row: Row, into: Format) -> list[Shown]:
        """Return the cells of a row as texts."""
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
        """For every column of a format, whether one of its cells has an interval."""
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
