"""Describe what a study adds to a page: its question and answers, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearsight.report.figures.drawing import Drawing
from nearsight.report.write.table import Table


@dataclass(frozen=True)
class Chapter:
    """A section of the page with tables; the page leaves out a chapter without tables.

    A chapter may name a ``template`` that shows its tables in another form, with ``values`` for
    the template. The tables can be downloaded in either case.
    """

    title: str
    tables: tuple[Table, ...]
    note: str = ""
    anchor: str = ""
    template: str = "chapter.html"
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The id of the section, for links."""
        return self.anchor or "chapter-" + self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Front:
    """Everything that a study adds above the report of its runs; every field may be empty."""

    question: str = ""
    answers: tuple[str, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    chapters: tuple[Chapter, ...] = ()

    @property
    def shown_chapters(self) -> list[Chapter]:
        """The chapters that have tables."""
        return [chapter for chapter in self.chapters if chapter.tables]

    @property
    def files(self) -> dict[tuple[str, str], str]:
        """The text of every file of its tables, by name and by format."""
        tables = [table for chapter in self.chapters for table in chapter.tables]
        return {key: text for table in tables for key, text in table.files().items()}

    @property
    def contents(self) -> dict[str, str]:
        """Ids and titles of the sections, for the table of contents; empty without chapters."""
        if not self.chapters:
            return {}
        chapters = {chapter.place: chapter.title for chapter in self.shown_chapters}
        end = {"provenance": "What was run", "reading": "How to read these numbers"}
        return {"figures-1": "Figures"} | chapters | end
