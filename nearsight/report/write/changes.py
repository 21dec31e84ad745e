"""The table of ``nearsight diff`` for the terminal: at most 80 columns."""

from __future__ import annotations

from typing import Any

from nearsight.core import console
from nearsight.measure.catalogue import metric, shown_in
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import Column, Table
from nearsight.report.write.terminal_table import heading_lines, unit_text
from nearsight.stats import Estimate

MOST_SHOWN = 12  # heads; all of them are in diff.json


def excludes_zero(low: float, high: float) -> bool:
    return low > 0 or high < 0


def layer_table(contents: dict[str, Any]) -> Table:
    """b - a of all heads together, of the most local head, and of every layer."""
    distance = contents["distance"]
    others = {
        x.name: heading_lines(x)
        for x in shown_in("terminal")
        if x.name != "mad" and x.name in contents["mean"]
    }

    def cells(name: str, means: dict[str, Any], apart: str) -> tuple[Cell, ...]:
        changes = (means[other]["value"] for other in others)
        return name, _estimate(means[distance], contents), *changes, apart

    rows = [cells("mean of all heads", contents["mean"], "")]
    for layer in contents["layers"]:
        means = {name: layer[name]["of_mean"] for name in (distance, *others)}
        rows.append(cells(f"  layer {layer['layer']}", means, _apart(layer[distance])))
    most = _estimate(contents["most_local"], contents)
    rows.append(("most local head", most, *[""] * len(others), ""))
    columns = [Column("b − a", "layer", width=24)]
    columns.append(Column(metric(distance).label, distance, "number", plus=True))
    columns += [Column(text, name, "number", plus=True) for name, text in others.items()]
    return Table("layers", (*columns, Column("heads apart", "heads_apart", "count")), rows)


def _estimate(change: dict[str, float], contents: dict[str, Any]) -> Estimate:
    n = contents["num_images"]
    return Estimate(change["value"], change["low"], change["high"], n, "images")


def _apart(heads: dict[str, Any]) -> str:
    """How many heads have an interval without 0."""
    if "low" not in heads:
        return ""
    apart = sum(excludes_zero(low, high) for low, high in zip(heads["low"], heads["high"]))
    return f"{apart} of {len(heads['low'])}"


def head_table(contents: dict[str, Any]) -> Table:
    """The heads that moved most."""
    distance, n = contents["distance"], contents["num_images"]
    moved = [
        (abs(mean), layer["layer"], head, Estimate(mean, low, high, n, "images"))
        for layer in contents["layers"]
        for head, (mean, low, high) in enumerate(
            zip(layer[distance]["mean"], layer[distance]["low"], layer[distance]["high"]), 1
        )
    ]
    most = sorted(moved, key=lambda each: each[:3], reverse=True)[:MOST_SHOWN]
    columns = (
        Column("moved most", "head"), Column(metric(distance).label, distance, "number", plus=True)
    )  # fmt: skip
    rows = [(f"  layer {layer} head {head}", change) for _, layer, head, change in most]
    return Table("heads", columns, rows)


def print_difference(contents: dict[str, Any]) -> None:
    """Print what ``folder_difference`` found."""
    screen = console()
    for side in ("a", "b"):
        screen.say(f"{side}: {contents[side]['folder']} ({contents[side]['name']})")
    screen.print(layer_table(contents).rich())
    if contents["level"] == "head":
        screen.print(head_table(contents).rich())
    unit = "" if contents["distance"] == "score" else f"MAD in {unit_text(contents)}. "
    screen.say(
        f"{unit}Intervals: 95 %, paired over {contents['num_images']:,} images of "
        f"{contents['data']['name']}; no correction for several comparisons."
    )
    for note in contents["notes"]:
        screen.say(note)
