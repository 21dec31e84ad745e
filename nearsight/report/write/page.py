"""Write the report: one self-contained HTML page, and its figures and tables as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

import nearsight
from nearsight.core import UserError, write_bytes
from nearsight.measure.catalogue import Metric, shown_in
from nearsight.report.figures.drawing import (
    MUTED,
    RULE,
    TEXT,
    Drawing,
    dark_theme_colour,
    panel_svgs,
    whole_figure,
)
from nearsight.report.figures.heads import score_ranking
from nearsight.report.read import (
    ConditionRuns,
    EvaluatedFolder,
    Evidence,
    Family,
    page_colours,
    read_evaluations,
)
from nearsight.report.write.answer import answer, question
from nearsight.report.write.cells import csv_text
from nearsight.report.write.downloads import MEDIA, SUFFIX, Download
from nearsight.report.write.efficiency_tables import efficiency_tables
from nearsight.report.write.evaluation_tables import evaluation_tables
from nearsight.report.write.front import Front
from nearsight.report.write.gallery import family_drawings
from nearsight.report.write.parts import all_part_heads, head_part_tables
from nearsight.report.write.rendering import render
from nearsight.report.write.run_details import run_details, settings_table
from nearsight.report.write.table import Table
from nearsight.report.write.tables import (
    BOLD_NOTE,
    all_heads,
    conditions_table,
    head_table,
    interval_note,
    layer_table,
    report_json,
)

FIGURE_FORMATS = ("svg", "png", "pdf")


def write_families(
    families: list[Family],
    out: Path,
    formats: Sequence[str] = (),
    front: Front | None = None,
    explorer: str = "",
) -> Path:
    """Write the report of runs that have been read and grouped.

    Args:
        families: The runs.
        out: The HTML page to write; its folder is made if it does not exist.
        formats: Formats (svg, png, pdf, csv, json, latex) to write into the folder
            ``<out stem>-files`` too; the page then also offers png and pdf for download.
        front: What a study shows above the report of its runs.
        explorer: HTML of an attention explorer to embed; ``nearsight.write_report`` passes the one
            of the runs.

    Returns:
        The path of the page.

    Raises:
        UserError: If a format is unknown or the page cannot be written.
    """
    out, front = Path(out), front or Front()
    wrong = [name for name in formats if name not in MEDIA]
    if wrong:
        raise UserError(f"--format does not know {', '.join(wrong)}; use one of {', '.join(MEDIA)}")
    check_page_name(out)
    _make_room(out)
    by_family = [family_drawings(family, families) for family in families]
    if ranking := score_ranking(families):
        by_family[0].insert(0, ranking)
    drawings = [*front.drawings, *(drawing for group in by_family for drawing in group)]
    conditions = conditions_table(families)
    tables = report_files(families, conditions)
    extra = {
        (drawing.key, name): whole_figure(drawing, name)
        for drawing in drawings
        for name in FIGURE_FORMATS
        if name == "svg" or name in formats
    }
    page = report_page(families, by_family, conditions, tables, extra, front, explorer)
    try:
        if formats:
            folder = out.with_name(f"{out.stem}-files")
            _write_files(folder, formats, drawings, tables | front.files, extra)
        write_bytes(out, page.encode())
    except OSError as error:
        raise UserError(f"cannot write the report to {out}: {error.strerror}") from error
    return out


def check_page_name(out: Path) -> None:
    """Check that the name of a page ends in .html.

    Raises:
        UserError: If it does not.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"--out is {out}, but a report is an HTML page, whose name must end in .html; "
            "--format pdf also writes its figures as PDF"
        )


def _make_room(out: Path) -> None:
    """Make the folder of the page, and check before any figure is drawn that it is writable."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write the report to {out}: {error.strerror}") from error
    if out.is_dir():
        raise UserError(
            f"cannot write the report to {out}, because it is a folder; give --out a file name"
        )
    if not os.access(out.parent, os.W_OK):
        raise UserError(
            f"cannot write the report to {out}, because its folder is not writable; choose "
            "another folder with --out"
        )


def report_files(families: list[Family], conditions: Table) -> dict[tuple[str, str], str]:
    """Return the text of the files of a report's own tables, by name and format."""
    return {
        ("conditions", "csv"): conditions.csv(),
        ("heads", "csv"): all_heads(families).csv(),
        **{(table.key, "csv"): table.csv() for table in all_part_heads(families)},
        ("report", "json"): report_json(families),
        ("conditions", "latex"): conditions.latex(),
    }


def report_page(
    families: list[Family],
    by_family: list[list[Drawing]],
    conditions: Table,
    tables: dict[tuple[str, str], str],
    extra: dict[tuple[str, str], bytes],
    front: Front,
    explorer: str = "",
) -> str:
    """Return the HTML of the report.

    Args:
        families: The runs.
        by_family: The figures of every family.
        conditions: The table of conditions.
        tables: The text of the files to download, by name and format.
        extra: The figures as files, by key and format.
        front: What a study shows above the report.
        explorer: HTML of an attention explorer to embed.
    """
    drawn = [*front.drawings, *(drawing for group in by_family for drawing in group)]
    by_family = [[*front.drawings, *by_family[0]], *by_family[1:]]
    several_seeds = any(x.num_seeds > 1 for family in families for x in family.conditions)
    return render(
        "page.html",
        version=nearsight.__version__,
        page_colours=page_colours(),
        dark_inks=dark_inks(families, drawn),
        scope=_scope_text(families),
        question=front.question or question(families),
        front=front,
        families=families,
        answers=[answer(family) for family in families],
        tables=[
            conditions,
            *(table for family in families for table in efficiency_tables(family)),
            *evaluation_tables(_evaluated(families)),
        ],
        note=f"{interval_note(families)} {BOLD_NOTE if several_seeds else ''}".strip(),
        downloads=[Download(name, kind, text) for (name, kind), text in tables.items()],
        figures=[[_figure(drawing, extra) for drawing in drawings] for drawings in by_family],
        explorer=Markup(explorer),
        details=[
            _condition_details(family, condition)
            for family in families
            for condition in family.conditions
        ],
        provenance=[_provenance(family) for family in families],
        explained=_explained_metrics(families),
        nulls=_null_values(families),
        convention=families[0].first.measure.convention.text,
    )


def _evaluated(families: list[Family]) -> list[EvaluatedFolder]:
    """Read the evaluations of the runs that were evaluated."""
    runs = [run for family in families for condition in family.conditions for run in condition.runs]
    return read_evaluations([run.path for run in runs])


def dark_inks(families: list[Family], drawn: Sequence[Drawing]) -> dict[str, str]:
    """Return the colours that replace the inks of the figures in the dark theme.

    The keys are the inks of the light theme without their #.
    """
    colours = {condition.colour for family in families for condition in family.conditions}
    layers = {ink for drawing in drawn for ink in drawing.inks}
    return {
        ink[1:]: dark_theme_colour(ink) for ink in sorted({TEXT, MUTED, RULE} | colours | layers)
    }


def _scope_text(families: list[Family]) -> str:
    runs = [run for f in families for c in f.conditions for run in c.runs]
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    scope = "; ".join(family.name for family in families)
    return (
        f"{scope} · seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else scope
    )


def _figure(drawing: Drawing, extra: dict[tuple[str, str], bytes]) -> dict[str, Any]:
    """Return a figure for the template, with its panels as SVG and its files."""
    files = [
        Download(drawing.key, kind, extra[drawing.key, kind])
        for kind in FIGURE_FORMATS
        if (drawing.key, kind) in extra
    ]
    numbers = Download(drawing.key, "csv", csv_text(drawing.columns, drawing.rows))
    return {
        "drawing": drawing,
        "panels": [Markup(svg) for svg in panel_svgs(drawing)],
        "downloads": [*files, numbers],
    }


def _condition_details(family: Family, condition: ConditionRuns) -> dict[str, Any]:
    """Return the tables of a condition's layers and of its runs' heads for the template."""
    label, model = condition.label, condition.runs[0].model_name
    named = label if condition.is_model or model in label else f"{model} by {label}"
    return {
        "title": f"{named} on {family.where}",
        "layers": layer_table(condition),
        "runs": [_run_tables(run) for run in condition.runs],
    }


def _run_tables(run: Evidence) -> dict[str, Any]:
    start = "" if run.is_model else f"seed {run.seed}: "
    tables = {"every head": head_table(run), **head_part_tables(run)}
    return {f"{start}{heading}": table for heading, table in tables.items()}


def _provenance(family: Family) -> dict[str, Any]:
    runs = [run_details(c, run) for c in family.conditions for run in c.runs]
    return {"settings": None if family.is_models else settings_table(family), "runs": runs}


def _explained_metrics(families: list[Family]) -> list[Metric]:
    """Return the measured metrics that the page explains besides MAD, entropy and self-mass."""
    measured = {name for family in families for c in family.conditions for name in c.runs[0].heads}
    return [x for x in shown_in("report") if x.meaning and x.name in measured]


def _null_values(families: list[Family]) -> dict[tuple[int, int], dict[str, float]]:
    """Return the null lines of every grid in the report."""
    return {
        grid: family.first.null(layer)
        for family in families
        for layer, grid in enumerate(family.first.grids)
    }


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
