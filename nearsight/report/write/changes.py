"""Print the result of ``nearsight diff`` as tables of at most 80 columns."""

from __future__ import annotations

from collections.abc import Mapping

from nearsight.core import console
from nearsight.measure.catalogue import metric, shown_in
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import Column, Table
from nearsight.report.write.terminal_table import heading_lines, unit_text
from nearsight.runs.records import DiffRecord, IntervalRecord, MetricChangeRecord
from nearsight.stats import Estimate

MOST_SHOWN = 12  # heads in the terminal; --out writes all of them


def excludes_zero(low: float, high: float) -> bool:
    """Tell whether an interval lies on one side of 0."""
    return low > 0 or high < 0


def layer_table(found: DiffRecord) -> Table:
    """Tabulate b - a for all heads together, for every layer, and for the most local head."""
    distance = found.distance
    others = {
        x.name: heading_lines(x.label)
        for x in shown_in("terminal")
        if x.name != "mad" and x.name in found.mean
    }

    def cells(name: str, means: Mapping[str, IntervalRecord], apart: str) -> tuple[Cell, ...]:
        changes = (means[other].value for other in others)
        return name, _estimate(means[distance], found), *changes, apart

    rows = [cells("mean of all heads", found.mean, "")]
    for layer in found.layers:
        means = {name: layer.metrics[name].of_mean for name in (distance, *others)}
        rows.append(cells(f"  layer {layer.layer}", means, _apart(layer.metrics[distance])))
    most = _estimate(found.most_local, found)
    rows.append(("most local head", most, *[""] * len(others), ""))
    columns = [Column("b − a", "layer", width=24)]
    columns.append(Column(metric(distance).label, distance, "number", plus=True))
    columns += [Column(text, name, "number", plus=True) for name, text in others.items()]
    return Table("layers", (*columns, Column("heads apart", "heads_apart", "count")), rows)


def _estimate(change: IntervalRecord, found: DiffRecord) -> Estimate:
    return Estimate(change.value, change.low, change.high, found.num_images, "images")


def _apart(change: MetricChangeRecord) -> str:
    """Write how many heads of a layer changed so much that their interval excludes 0."""
    if not change.heads:
        return ""
    apart = sum(excludes_zero(low, high) for _, low, high in change.heads)
    return f"{apart} of {len(change.heads)}"


def head_table(found: DiffRecord) -> Table:
    """Tabulate the heads that changed most."""
    distance, n = found.distance, found.num_images
    moved = [
        (abs(mean), layer.layer, head, Estimate(mean, low, high, n, "images"))
        for layer in found.layers
        for head, (mean, low, high) in enumerate(layer.metrics[distance].heads, 1)
    ]
    most = sorted(moved, key=lambda each: each[:3], reverse=True)[:MOST_SHOWN]
    label = metric(distance).label
    columns = Column("changed most", "head"), Column(label, distance, "number", plus=True)
    rows = [(f"  layer {layer} head {head}", change) for _, layer, head, change in most]
    return Table("heads", columns, rows)


def print_difference(found: DiffRecord) -> None:
    """Print a comparison of two measurements: the folders, the tables and the notes."""
    screen = console()
    for letter, side in (("a", found.a), ("b", found.b)):
        screen.say(f"{letter}: {side.folder} ({side.name})")
    screen.print(layer_table(found).rich())
    if found.level == "head":
        screen.print(head_table(found).rich())
    unit = "" if found.distance == "score" else f"MAD in {unit_text(found.convention)}. "
    screen.say(
        f"{unit}The intervals are 95 % intervals, paired over {found.num_images:,} images of "
        f"{found.data.name}, without correction for several comparisons."
    )
    for note in found.notes:
        screen.say(note)
