"""The table of ``nearsight study causal`` for the terminal: at most 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from nearsight.report.figures.study import CHANGES, LEVEL
from nearsight.runs import CAUSAL, read_json, read_record, run_name
from nearsight.study.show.study_tables import console


def print_causal(folder: Path) -> None:
    """Accuracy lost per head and change, and below it what the numbers are of."""
    contents, screen = read_json(Path(folder) / CAUSAL), console()
    screen.print(run_name(read_record(Path(folder))), style="bold", markup=False)
    screen.print(causal_table(contents))
    side, lost = contents["window"], contents["lost"]
    screen.print(
        f"Points of accuracy lost of {100 * contents['accuracy']:.1f} % on the same "
        f"{contents['num_images']:,} test images, 95 % over images of this one run. In window: "
        f"share of the attention between patches within {side}x{side} patches, unchanged "
        f"(uniform attention: {contents['layers'][0]['uniform_inside']:.2f}). "
        f"*: exact McNemar p below {LEVEL} after Holm over all {len(lost)} changes.",
        markup=False,
    )
    for remark in contents["remarks"]:
        screen.print(remark, markup=False)


def causal_table(contents: dict[str, Any]) -> Table:
    """A row per head, layer and model, a pair of columns per change."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in contents["lost"]:
        rows.setdefault(entry["heads"], {})[entry["change"]] = entry
    changes = list(next(iter(rows.values())))
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("head", no_wrap=True)
    table.add_column("in window", justify="right")
    for change in changes:
        table.add_column(CHANGES[change], justify="right")
        table.add_column("95 %", justify="right", no_wrap=True)
    for name, found in rows.items():
        cells = [text for change in changes for text in _cells(found[change])]
        table.add_row(name, _inside(contents, name), *cells)
    return table


def _cells(entry: dict[str, Any]) -> tuple[str, str]:
    mark = "*" if entry["p_holm"] < LEVEL else " "
    return points(entry["value"]) + mark, f"{points(entry['low'])} to {points(entry['high'])}"


def _inside(contents: dict[str, Any], name: str) -> str:
    """The share in the window of one head; nothing for heads together."""
    layer, _, head = name.partition(".")
    return f"{contents['layers'][int(layer) - 1]['inside'][int(head) - 1]:.2f}" if head else ""


def points(share: float) -> str:
    """A share as points of a hundred, with a real minus; whole ones from 10 on.

    >>> points(0.0123), points(-0.0999), points(-0.0001)
    ('1.2', '−10', '0.0')
    """
    text = f"{100 * share:.{1 if abs(share) < 0.0995 else 0}f}".replace("-", "−")
    return "0.0" if text == "−0.0" else text
