"""Tables as CSV, JSON and LaTeX."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import nearsight
from nearsight.measure.catalogue import RUN_NUMBERS
from nearsight.report.read import Family
from nearsight.report.write.tables import number_text, shown_columns, signed, stands_out
from nearsight.stats import Estimate

MEDIA = {
    "csv": "text/csv",
    "json": "application/json",
    "latex": "application/x-tex",
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
}
SUFFIX = {"latex": "tex"}
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "−": "$-$",
    "–": "--",
}


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers in full precision; quoted where a text needs it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def json_text(families: list[Family]) -> str:
    """Every run's run.json and measure.json, by condition."""
    conditions = [
        {
            "condition": condition.label,
            "family": family.name,
            "estimates": {
                number.name: vars(condition.estimate(number.name))
                for number in RUN_NUMBERS
                if condition.has(number.name)
            },
            "runs": [{"run": run.record, "measure": run.measure} for run in condition.runs],
        }
        for family in families
        for condition in family.conditions
    ]
    content = {"schema_version": 1, "nearsight": nearsight.__version__, "conditions": conditions}
    return json.dumps(content, indent=1) + "\n"


def latex_escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> latex_escaped("nano_vit & 50 %")
    'nano\\_vit \\& 50 \\%'
    """
    return "".join(LATEX_SPECIAL.get(sign, sign) for sign in text)


def latex_bounds(x: Estimate, percent: bool, digits: int = 3) -> str:
    """The interval in brackets."""
    scale, digits = (100, 1) if percent else (1, digits)
    low, high = f"{scale * x.low:.{digits}f}", f"{scale * x.high:.{digits}f}"
    return latex_escaped(signed(f"[{low}, {high}]"))


def latex_tabular(
    headings: Sequence[str], groups: Sequence[Sequence[Sequence[str]]], note: str
) -> str:
    """Groups of rows with a rule above each; a row of one cell goes over all columns."""
    lines = [
        rf"% \usepackage{{booktabs}}; {note}",
        rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"\toprule",
        " & ".join(headings) + r" \\",
    ]
    for rows in groups:
        lines.append(r"\midrule")
        for row in rows:
            if len(row) == 1:
                row = [rf"\multicolumn{{{len(headings)}}}{{l}}{{\emph{{{row[0]}}}}}"]
            lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def latex_table(families: list[Family]) -> str:
    """The table of conditions for a paper (needs the booktabs package)."""
    columns = shown_columns(families)
    headings = ["condition", "$n$", *(latex_escaped(column.heading) for column in columns)]
    groups = []
    for family in families:
        rows = [[latex_escaped(family.name)]]
        for condition in family.conditions:
            cells = [latex_escaped(condition.label), str(condition.num_seeds)]
            for column in columns:
                if not condition.has(column.name):
                    cells.append("--")
                    continue
                x = condition.estimate(column.name)
                value = latex_escaped(number_text(x.value, column.percent))
                if stands_out(family, condition, column):
                    value = rf"\textbf{{{value}}}"
                cells.append(f"{value} {latex_bounds(x, column.percent)}")
            rows.append(cells)
        groups.append(rows)
    note = "brackets: 95 % interval over n seeds, or over images for n = 1"
    return latex_tabular(headings, groups, note)


def data_link(content: str | bytes, file_format: str, name: str) -> str:
    """A link that holds the file it downloads."""
    raw = content.encode() if isinstance(content, str) else content
    encoded = base64.b64encode(raw).decode()
    file_name = f"{name}.{SUFFIX.get(file_format, file_format)}"
    label = {"latex": "LaTeX"}.get(file_format, file_format.upper())
    return (
        f'<a download="{file_name}" href="data:{MEDIA[file_format]};base64,{encoded}">{label}</a>'
    )
