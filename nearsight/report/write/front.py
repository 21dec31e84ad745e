"""What a study puts before the figures of its runs: its question and answer, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearsight.report.figures.drawing import Drawing
from nearsight.report.write.table import Table


@dataclass(frozen=True)
class Chapter:
    """Tables that belong together; without tables the page leaves the chapter out.

    A chapter may bring a ``template`` that shows its tables in another form, with ``values`` for
    it. The tables are offered as files in any case.
    """

    title: str
    tables: tuple[Table, ...]
    note: str = ""
    anchor: str = ""
    template: str = "chapter.html"
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The id that links lead to."""
        return self.anchor or "chapter-" + self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Front:
    """What a study adds to the page; every field may be empty."""

    question: str = ""
    answers: tuple[str, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    chapters: tuple[Chapter, ...] = ()

    @property
    def shown_chapters(self) -> list[Chapter]:
        return [chapter for chapter in self.chapters if chapter.tables]

    @property
    def files(self) -> dict[tuple[str, str], str]:
        """The text of every file of its tables, by name and format."""
        tables = [table for chapter in self.chapters for table in chapter.tables]
        return {key: text for table in tables for key, text in table.files().items()}

    @property
    def contents(self) -> dict[str, str]:
        """Places and titles of the parts of a long page; none for a report of single runs."""
        if not self.chapters:
            return {}
        chapters = {chapter.place: chapter.title for chapter in self.shown_chapters}
        end = {"provenance": "What was run", "reading": "How to read these numbers"}
        return {"figures-1": "Figures"} | chapters | end
