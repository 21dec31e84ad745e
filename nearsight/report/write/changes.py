"""The table of ``nearsight diff`` for the terminal: at most 80 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from nearsight.measure.catalogue import metric, shown_in
from nearsight.report.write.terminal_table import heading_lines, unit_text

MOST_SHOWN = 12  # heads; all of them are in diff.json


def signed(value: float) -> str:
    """With its sign, and a real minus.

    >>> signed(0.0123), signed(-0.5), signed(-0.00001)
    ('+0.012', '−0.500', '0.000')
    """
    text = f"{value:+.3f}".replace("-", "−")
    return "0.000" if text.strip("+−0.") == "" else text


def interval(change: dict[str, float]) -> str:
    return f"{signed(change['low'])} to {signed(change['high'])}"


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
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("b − a", max_width=24)
    for heading in (metric(distance).label, "95 %", *others.values(), "heads apart"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [("mean of all heads", contents["mean"], "")]
    for layer in contents["layers"]:
        means = {name: layer[name]["of_mean"] for name in (distance, *others)}
        rows.append((f"  layer {layer['layer']}", means, _apart(layer[distance])))
    for name, means, apart in rows:
        table.add_row(
            name,
            signed(means[distance]["value"]),
            interval(means[distance]),
            *(signed(means[other]["value"]) for other in others),
            apart,
        )
    most = contents["most_local"]
    table.add_row("most local head", signed(most["value"]), interval(most), *[""] * len(others), "")
    return table


def _apart(heads: dict[str, Any]) -> str:
    """How many heads have an interval without 0."""
    if "low" not in heads:
        return ""
    apart = sum(excludes_zero(low, high) for low, high in zip(heads["low"], heads["high"]))
    return f"{apart} of {len(heads['low'])}"


def head_table(contents: dict[str, Any]) -> Table:
    """The heads that moved most."""
    distance = contents["distance"]
    moved = [
        (abs(mean), layer["layer"], head, mean, low, high)
        for layer in contents["layers"]
        for head, (mean, low, high) in enumerate(
            zip(layer[distance]["mean"], layer[distance]["low"], layer[distance]["high"]), 1
        )
    ]
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("moved most")
    table.add_column(metric(distance).label, justify="right", no_wrap=True)
    table.add_column("95 %", justify="right", no_wrap=True)
    for _, layer, head, mean, low, high in sorted(moved, reverse=True)[:MOST_SHOWN]:
        bounds = interval({"low": low, "high": high})
        table.add_row(f"  layer {layer} head {head}", signed(mean), bounds)
    return table


def print_difference(contents: dict[str, Any]) -> None:
    """Print what ``folder_difference`` found."""
    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, 80), soft_wrap=False)
    for side in ("a", "b"):
        console.print(
            f"{side}: {contents[side]['folder']} ({contents[side]['name']})", markup=False
        )
    console.print(layer_table(contents))
    if contents["level"] == "head":
        console.print(head_table(contents))
    unit = "" if contents["distance"] == "score" else f"MAD in {unit_text(contents)}. "
    console.print(
        f"{unit}Intervals: 95 %, paired over {contents['num_images']:,} images of "
        f"{contents['data']['name']}; no correction for several comparisons.",
        markup=False,
    )
    for note in contents["notes"]:
        console.print(note, markup=False)
