"""What a study puts before the figures of its runs: its question and answer, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from nearsight.report.figures.drawing import Drawing
from nearsight.report.write.sheet import Sheet


@dataclass(frozen=True)
class Chapter:
    """Tables that belong together, and what must be said of all of them."""

    title: str
    sheets: tuple[Sheet, ...]
    note: str = ""

    def html(self) -> str:
        if not self.sheets:
            return ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        tables = "".join(sheet.html() for sheet in self.sheets)
        return f'<section id="{self.anchor}"><h2>{escape(self.title)}</h2>{note}{tables}</section>'

    @property
    def anchor(self) -> str:
        return "chapter-" + self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Front:
    """Nothing of it has to be there."""

    question: str = ""
    answers: tuple[str, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    claims: str = ""  # a section as HTML
    unseen: tuple[Sheet, ...] = ()  # shown in another form, but files like the others

    @property
    def tables(self) -> dict[tuple[str, str], str]:
        """(name, format) -> text of its sheets."""
        each = [sheet for chapter in self.chapters for sheet in chapter.sheets]
        every = [*each, *self.unseen]
        return {key: text for sheet in every for key, text in sheet.files().items()}

    def contents(self) -> str:
        """Links to the parts of a long page; none for a report of single runs."""
        if not self.chapters:
            return ""
        parts = {"figures-1": "Figures"}
        parts |= {chapter.anchor: chapter.title for chapter in self.chapters if chapter.sheets}
        parts |= {"claims": "The papers' claims"} if self.claims else {}
        parts |= {"provenance": "What was run", "reading": "How to read these numbers"}
        links = (f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title in parts.items())
        return f'<nav class="note">On this page: {" · ".join(links)}</nav>'

    def html(self) -> str:
        return "\n".join([*(chapter.html() for chapter in self.chapters), self.claims])
