"""The report: one self-contained HTML page, and on request its figures and tables as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import nearsight
from nearsight.core import UserError, write_bytes
from nearsight.report.figures.drawing import (
    MUTED,
    RULE,
    TEXT,
    Drawing,
    lightened,
    panel_svgs,
    whole_figure,
)
from nearsight.report.read import Family, read_families
from nearsight.report.write.answer import answer, question
from nearsight.report.write.efficiency_tables import efficiency_tables
from nearsight.report.write.export import MEDIA, SUFFIX, csv_text, data_link, json_text, latex_table
from nearsight.report.write.front import Front
from nearsight.report.write.gallery import family_drawings
from nearsight.report.write.markup import (
    head_details,
    interval_note,
    legend_list,
    provenance_section,
    reading_section,
    summary_table,
)
from nearsight.report.write.tables import BOLD_NOTE, gate_rows, head_rows, summary_rows

FIGURE_FORMATS = ("svg", "png", "pdf")
TEXT_FORMATS = ("csv", "json", "latex")


def write_report(
    runs: Sequence[Path], out: Path, formats: Sequence[str] = (), front: Front | None = None
) -> Path:
    """Write the report of measured run folders to ``out`` and return that path.

    ``formats`` (svg, png, pdf, csv, json, latex) also go into the folder ``<out stem>-files``; png
    and pdf are then offered in the page too. Figures are made from measure.json alone; ``front`` is
    what a study shows before them.
    """
    out, front = Path(out), front or Front()
    wrong = [name for name in formats if name not in MEDIA]
    if wrong:
        raise UserError(f"expected formats of {', '.join(MEDIA)}, got {', '.join(wrong)}")
    families = read_families(runs)
    _make_room(out)
    by_family = [family_drawings(family, families) for family in families]
    drawings = [*front.drawings, *(drawing for group in by_family for drawing in group)]
    tables = report_tables(families)
    extra = {
        (drawing.key, name): whole_figure(drawing, name)
        for drawing in drawings
        for name in FIGURE_FORMATS
        if name == "svg" or name in formats
    }
    page = report_page(families, by_family, tables, extra, front)
    try:
        if formats:
            folder = out.with_name(f"{out.stem}-files")
            _write_files(folder, formats, drawings, tables | front.tables, extra)
        write_bytes(out, page.encode())
    except OSError as error:
        raise UserError(f"cannot write the report to {out}: {error.strerror}") from error
    return out


def _make_room(out: Path) -> None:
    """Find out before the figures are drawn whether the page can be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write the report to {out}: {error.strerror}") from error
    if out.is_dir():
        raise UserError(f"cannot write the report to {out}: it is a folder")
    if not os.access(out.parent, os.W_OK):
        raise UserError(f"cannot write the report to {out}: its folder is not writable")


def report_tables(families: list[Family]) -> dict[tuple[str, str], str]:
    """(name, format) -> text of every table that can be downloaded."""
    header, gates = gate_rows(families)
    return {
        ("conditions", "csv"): csv_text(*summary_rows(families)),
        ("heads", "csv"): csv_text(*head_rows(families)),
        **({("gates", "csv"): csv_text(header, gates)} if gates else {}),
        ("report", "json"): json_text(families),
        ("conditions", "latex"): latex_table(families),
    }


def report_page(
    families: list[Family],
    by_family: list[list[Drawing]],
    tables: dict[tuple[str, str], str],
    extra: dict[tuple[str, str], bytes],
    front: Front,
) -> str:
    """The HTML of the report."""
    folder = files("nearsight.report") / "templates"
    colours = {condition.colour for family in families for condition in family.conditions}
    drawn = [*front.drawings, *(drawing for group in by_family for drawing in group)]
    layers = {ink for drawing in drawn for ink in drawing.inks}
    inks = sorted({TEXT, MUTED, RULE} | colours | layers)
    dark = "; ".join(f"--ink-{ink[1:]}: {lightened(ink)}" for ink in inks)
    style = Template((folder / "style.css").read_text()).substitute(dark_inks=f"{dark};")
    runs = [run for f in families for c in f.conditions for run in c.runs]
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    scope = "; ".join(family.name for family in families)
    if seeds:
        scope += f" · seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    links = [
        data_link(text, kind, name).replace("</a>", f" ({name})</a>")
        for (name, kind), text in tables.items()
    ]
    answers = [f'<p class="answer">{escape(text)}</p>' for text in front.answers]
    answers += [
        f'<p class="answer">{_family_name(family, families)}{escape(answer(family))}</p>'
        for family in families
    ]
    by_family = [[*front.drawings, *by_family[0]], *by_family[1:]]
    sections = [
        f'<section id="figures-{number}"><h2>Figures{_family_title(family, families)}</h2>'
        + "".join(figure_html(drawing, extra) for drawing in drawings)
        + "</section>"
        for number, (family, drawings) in enumerate(zip(families, by_family), 1)
    ]
    return Template((folder / "page.html").read_text()).substitute(
        title=escape(front.question or question(families)),
        style=style,
        version=nearsight.__version__,
        scope=escape(scope),
        question=escape(front.question or question(families)),
        answers="\n".join(answers),
        contents=front.contents(),
        summary="".join([summary_table(families), *map(efficiency_tables, families)]),
        interval_note=escape(interval_note(families)),
        bold_note=escape("" if all(family.is_models for family in families) else BOLD_NOTE),
        downloads=" · ".join(links),
        figures="\n".join([*sections, front.html()]),
        details=head_details(families),
        provenance=provenance_section(families),
        reading=reading_section(families),
    )


def _family_name(family: Family, families: list[Family]) -> str:
    return "" if len(families) == 1 else f"<b>{escape(family.name)}.</b> "


def _family_title(family: Family, families: list[Family]) -> str:
    return "" if len(families) == 1 else f": {escape(family.name)}"


def figure_html(drawing: Drawing, extra: dict[tuple[str, str], bytes]) -> str:
    """A figure with its words and downloads."""
    links = [
        data_link(extra[drawing.key, kind], kind, drawing.key)
        for kind in FIGURE_FORMATS
        if (drawing.key, kind) in extra
    ]
    links.append(data_link(csv_text(drawing.columns, drawing.rows), "csv", drawing.key))
    return (
        f'<figure id="{drawing.key}"><h3>{escape(drawing.title)}</h3>'
        f'<p class="subtitle">{escape(drawing.subtitle)}</p>{legend_list(drawing.legend)}'
        f'<div class="panels" role="img" aria-label="{escape(drawing.alt)}">'
        f"{''.join(panel_svgs(drawing))}</div>"
        f'<figcaption><p class="reading">{escape(drawing.reading)}</p>'
        f'<p class="downloads">Download: {" · ".join(links)}</p></figcaption></figure>'
    )


def _write_files(
    folder: Path,
    formats: Sequence[str],
    drawings: list[Drawing],
    tables: dict[tuple[str, str], str],
    extra: dict[tuple[str, str], bytes],
) -> None:
    folder.mkdir(exist_ok=True)
    contents = {key: text.encode() for key, text in tables.items()} | extra
    for drawing in drawings:
        contents[drawing.key, "csv"] = csv_text(drawing.columns, drawing.rows).encode()
    for (name, kind), content in contents.items():
        if kind in formats:
            write_bytes(folder / f"{name}.{SUFFIX.get(kind, kind)}", content)
