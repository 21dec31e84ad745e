"""The table of ``nearsight study causal`` for the terminal: at most 80 columns."""

from __future__ import annotations

from pathlib import Path

from nearsight.core import console
from nearsight.report.figures.study import CHANGES, LEVEL
from nearsight.report.write import Cell, Column, Marked, Table
from nearsight.runs import read_record
from nearsight.runs.records import CAUSAL_FILE, CausalRecord, LossRecord
from nearsight.stats import Estimate


def print_causal(folder: Path) -> None:
    """Accuracy lost per head and change, and below it what the numbers are of."""
    contents, screen = CAUSAL_FILE.read(folder), console()
    screen.say(read_record(folder).name, style="bold")
    screen.print(causal_table(contents).rich())
    side, lost = contents.window, contents.lost
    screen.say(
        f"Points of accuracy lost of {100 * contents.accuracy:.1f} % on the same "
        f"{contents.num_images:,} test images, 95 % over images of this one run. In window: "
        f"share of the attention between patches within {side}x{side} patches, unchanged "
        f"(uniform attention: {contents.layers[0].uniform_inside:.2f}). "
        f"*: exact McNemar p below {LEVEL} after Holm over all {len(lost)} changes."
    )
    for remark in contents.remarks:
        screen.say(remark)


def causal_table(contents: CausalRecord) -> Table:
    """A row per head, layer and model, a pair of columns per change."""
    rows: dict[str, dict[str, LossRecord]] = {}
    for entry in contents.lost:
        rows.setdefault(entry.heads, {})[entry.change] = entry
    changes = list(next(iter(rows.values())))
    columns = [
        Column("head", "head", wrap=False),
        Column("in window", "in_window", "number", 2, wrap=True),
    ]
    columns += [Column(CHANGES[change], change, "points", wrap=True) for change in changes]
    n = contents.num_images
    cells: list[tuple[Cell, ...]] = [
        (name, _inside(contents, name), *(_lost(found[change], n) for change in changes))
        for name, found in rows.items()
    ]
    return Table("causal", tuple(columns), cells)


def _lost(entry: LossRecord, num_images: int) -> Marked:
    x = Estimate(entry.value, entry.low, entry.high, num_images, "images")
    return Marked(x, tag="*" if entry.p_holm < LEVEL else " ")


def _inside(contents: CausalRecord, name: str) -> float | str:
    """The share in the window of one head; nothing for heads together."""
    layer, _, head = name.partition(".")
    return contents.layers[int(layer) - 1].inside[int(head) - 1] if head else ""
