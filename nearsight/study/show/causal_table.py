"""Print the tables of ``nearsight study causal``, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.core import console
from nearsight.report.figures.study import CHANGES, LEVEL
from nearsight.report.write import Cell, Column, Marked, Table
from nearsight.runs import read_record
from nearsight.runs.records import CAUSAL_FILE, CausalRecord, LossRecord
from nearsight.stats import Estimate
from nearsight.study.analyse import LoadedStudy, SeedLoss, condition_text, losses_over_seeds


def print_causal(folder: Path) -> None:
    """Print the accuracy that each change of each head costs, and explain the numbers."""
    contents, screen = CAUSAL_FILE.read(folder), console()
    screen.say(read_record(folder).name, style="bold")
    screen.print(causal_table(contents).rich())
    side, lost = contents.window, contents.lost
    screen.say(
        f"The accuracy is {100 * contents.accuracy:.1f} %. The table shows how many percentage "
        f"points each change costs on the same {contents.num_images:,} test images, with 95 % "
        "intervals over images of this one run. 'In window' is the share of a head's attention "
        f"between patches that stays within {side}x{side} patches before any change (uniform "
        f"attention: {contents.layers[0].uniform_inside:.2f}). * marks an exact McNemar p below "
        f"{LEVEL} after Holm's correction for all {len(lost)} changes."
    )
    for remark in contents.remarks:
        screen.say(remark)


SEEDS_NOTE = (
    "Percentage points of accuracy lost on the same test images: means over seeds, each with its "
    "own 95 % t-interval. Single heads are not averaged, because head 1 of one seed does not "
    "correspond to head 1 of another."
)


def print_causal_study(study: LoadedStudy) -> None:
    """Print the accuracy that each change costs every condition, over seeds."""
    screen, found = console(), losses_over_seeds(study)
    screen.print(seed_losses_table(found).rich())
    screen.say(SEEDS_NOTE)


def seed_losses_table(found: Sequence[SeedLoss]) -> Table:
    """Return a table with a row per condition and group of heads, and a column per change."""
    rows: dict[tuple[str, str], dict[str, SeedLoss]] = {}
    for x in found:
        rows.setdefault((condition_text(x.condition), x.heads), {})[x.change] = x
    changes = list(dict.fromkeys(x.change for x in found))
    columns = [Column("condition", "condition"), Column("heads", "heads", wrap=False)]
    columns += [Column(CHANGES[change], change, "points", wrap=True) for change in changes]
    columns.append(Column("seeds", "seeds", "count"))
    cells: list[tuple[Cell, ...]] = [
        (
            *key,
            *(_over_seeds(losses.get(change)) for change in changes),
            max(len(x.per_seed) for x in losses.values()),
        )
        for key, losses in rows.items()
    ]
    title = "Is locality used? Accuracy lost when heads attend elsewhere, over seeds"
    return Table("causal-seeds", tuple(columns), cells, title, SEEDS_NOTE)


def _over_seeds(x: SeedLoss | None) -> Cell:
    if x is None:
        return None
    return x.estimate if x.estimate is not None else next(iter(x.per_seed.values()))


def causal_table(contents: CausalRecord) -> Table:
    """Return a table with a row per head, layer and model, and two columns per change."""
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
    """Return the share of a head's attention in the window; empty for several heads."""
    layer, _, head = name.partition(".")
    return contents.layers[int(layer) - 1].inside[int(head) - 1] if head else ""
