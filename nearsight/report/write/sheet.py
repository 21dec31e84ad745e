"""A table that a page shows and that can be downloaded: numbers with their intervals, and words.

A cell is a text, a number, an estimate or nothing. Numbers of a percent column are shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nearsight.report.write.export import (
    csv_text,
    data_link,
    latex_bounds,
    latex_escaped,
    latex_tabular,
)
from nearsight.report.write.tables import interval_text, number_text, signed
from nearsight.stats import Estimate

Cell = str | int | float | Estimate | None
NOTHING = "–"


@dataclass(frozen=True)
class Heading:
    """Of a column; ``name`` is for CSV, ``digits`` are behind the point."""

    text: str
    name: str
    percent: bool = False
    digits: int = 3


@dataclass(frozen=True)
class Sheet:
    """Rows under headings, with a title and what must be said beside them."""

    key: str  # names its files
    title: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def csv(self) -> str:
        """Full precision; an estimate takes four columns."""
        wide = [
            any(isinstance(row[i], Estimate) for row in self.rows)
            for i in range(len(self.headings))
        ]
        header: list[str] = []
        for heading, is_wide in zip(self.headings, wide):
            ends = ("", "_low", "_high", "_n") if is_wide else ("",)
            header += [f"{heading.name}{end}" for end in ends]
        rows = []
        for row in self.rows:
            cells: list[str | float] = []
            for cell, is_wide in zip(row, wide):
                if isinstance(cell, Estimate):
                    cells += [cell.value, cell.low, cell.high, cell.n]
                else:
                    cells += ["" if cell is None else cell, *([""] * (3 * is_wide))]
            rows.append(cells)
        return csv_text(header, rows)

    def latex(self) -> str:
        """For a paper (needs the booktabs package)."""
        headings = [latex_escaped(heading.text) for heading in self.headings]
        rows = [
            [latex_cell(cell, heading) for cell, heading in zip(row, self.headings)]
            for row in self.rows
        ]
        return latex_tabular(headings, [rows], self.note)

    def html(self) -> str:
        """With its title and note, scrolling sideways where it is too wide."""
        head = "".join(f"<th>{escape(heading.text)}</th>" for heading in self.headings)
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f'<h3 id="{self.key}">{escape(self.title)}</h3>'
            f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{note}"
            f"{self.downloads()}"
        )

    def downloads(self) -> str:
        links = [data_link(text, kind, name) for (name, kind), text in self.files().items()]
        return f'<p class="downloads">Download: {" · ".join(links)}</p>'

    def files(self) -> dict[tuple[str, str], str]:
        """(name, format) -> text, as the page offers them."""
        return {(self.key, "csv"): self.csv(), (self.key, "latex"): self.latex()}

    def _row(self, row: Sequence[Cell]) -> str:
        first, *rest = (
            escape(_shown(cell, heading)) + _small_bounds(cell, heading)
            for cell, heading in zip(row, self.headings)
        )
        return f'<th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}'


def _shown(cell: Cell, heading: Heading) -> str:
    """Without its interval."""
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    value = cell.value if isinstance(cell, Estimate) else cell
    return signed(number_text(value, heading.percent, heading.digits))


def _small_bounds(cell: Cell, heading: Heading) -> str:
    if not isinstance(cell, Estimate):
        return ""
    bounds = signed(interval_text(cell, heading.percent, heading.digits))
    return f' <small class="interval">{bounds}</small>'


def latex_cell(cell: Cell, heading: Heading) -> str:
    text = latex_escaped(_shown(cell, heading))
    if isinstance(cell, Estimate):
        return f"{text} {latex_bounds(cell, heading.percent, heading.digits)}"
    return text
