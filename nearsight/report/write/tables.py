"""The tables of a report as plain rows; export.py and page.py write them down."""

from __future__ import annotations

import re
from itertools import repeat

from nearsight.measure.catalogue import RUN_NUMBERS, Number, shown_in
from nearsight.report.read import Condition, Evidence, Family, paired_difference
from nearsight.stats import Estimate

Row = tuple[str | int | float, ...]

HEAD_OF_GPSA = ("layer", "head", "gate", "centre_down", "centre_right", "span")


def shown_columns(families: list[Family]) -> list[Number]:
    """Return the numbers of a run that some condition has."""
    conditions = [condition for family in families for condition in family.conditions]
    return [column for column in RUN_NUMBERS if any(c.has(column.name) for c in conditions)]


BOLD_NOTE = (
    "Bold: the highest accuracy and the most local value (lowest MAD and entropy, highest "
    "self-mass), only where the 95 % interval of its difference from every other condition, "
    "paired by seed, excludes 0; no correction for several comparisons."
)


def stands_out(family: Family, condition: Condition, column: Number) -> bool:
    """Whether the condition beats every other one by a paired interval that excludes 0."""
    others = [other for other in family.conditions if other is not condition]
    differences = [paired_difference(condition, other, column.name) for other in others]
    return bool(others) and all(
        d is not None and (d.low > 0 if column.better > 0 else d.high < 0) for d in differences
    )


def number_text(value: float, percent: bool = False, digits: int = 3) -> str:
    """Three decimals unless told, or per cent with one.

    >>> number_text(0.41785), number_text(0.6338, percent=True)
    ('0.418', '63.4 %')
    """
    return f"{100 * value:.1f} %" if percent else f"{value:.{digits}f}"


def signed(text: str) -> str:
    """With a true minus sign, and none before a zero.

    >>> signed("-0.000"), signed("-0.010 to -0.0")
    ('0.000', '−0.010 to 0.0')
    """
    return re.sub(r"-(0\.0+)(?!\d)", r"\1", text).replace("-", "−")


def interval_text(estimate: Estimate, percent: bool = False, digits: int = 3) -> str:
    """The interval, with one more digit where its ends would look alike.

    >>> interval_text(Estimate(0.02, 0.0198, 0.0202, 5000, "images"))
    '0.0198 to 0.0202'
    """
    scale, digits = (100, 1) if percent else (1, digits)
    low, high = scale * estimate.low, scale * estimate.high
    if f"{low:.{digits}f}" == f"{high:.{digits}f}":
        digits += 1
    return f"{low:.{digits}f} to {high:.{digits}f}{' %' * percent}"


def summary_rows(families: list[Family]) -> tuple[tuple[str, ...], list[Row]]:
    """The table of conditions for CSV: one row per condition."""
    header = ["condition", "model", "data", "grid", "seeds"]
    columns = shown_columns(families)
    for column in columns:
        header += [f"{column.name}{end}" for end in ("", "_low", "_high", "_n", "_over")]
    rows: list[Row] = []
    for family in families:
        for condition in family.conditions:
            record = condition.runs[0].record
            row: list[str | int | float] = [
                condition.label,
                record["model"]["name"],
                record["data"]["name"],
                family.grids_text,
                " ".join(str(run.seed) for run in condition.runs if run.seed is not None),
            ]
            for column in columns:
                if condition.has(column.name):
                    x = condition.estimate(column.name)
                    row += [x.value, x.low, x.high, x.n, x.over]
                else:
                    row += [""] * 5
            rows.append(tuple(row))
    return tuple(header), rows


def layer_rows(condition: Condition) -> tuple[tuple[str, ...], list[Row]]:
    """Per layer: the smallest head's MAD and the layer's means, with intervals."""
    header = ["layer", "min_mad", "min_mad_low", "min_mad_high"]
    for metric in condition.metrics:
        header += [f"{metric.name}{end}" for end in ("", "_low", "_high")]
    rows: list[Row] = []
    for layer in range(len(condition.runs[0].layers["mad"])):
        smallest = condition.sorted_heads("mad", layer)[0]
        row: list[str | int | float] = [layer + 1, smallest.value, smallest.low, smallest.high]
        for metric in condition.metrics:
            x = condition.layer_estimate(metric.name, layer)
            row += [x.value, x.low, x.high]
        rows.append(tuple(row))
    return tuple(header), rows


def head_rows(families: list[Family]) -> tuple[tuple[str, ...], list[Row]]:
    """Every head of every run, as in measure.json."""
    header = ["condition", "model", "data", "seed", "layer", "head"]
    runs = [run for family in families for condition in family.conditions for run in condition.runs]
    names = [x.name for x in shown_in("report") if any(x.name in run.heads for run in runs)]
    for name in names:
        header += [f"{name}{end}" for end in ("", "_low", "_high")]
    rows: list[Row] = []
    for family in families:
        for condition in family.conditions:
            for run in condition.runs:
                first = (condition.label, run.record["model"]["name"], run.record["data"]["name"])
                seed = "" if run.seed is None else run.seed
                for layer, heads in enumerate(run.heads["mad"].mean):
                    for head in range(len(heads)):
                        numbers = [
                            x for name in names for x in _head_numbers(run, name, layer, head)
                        ]
                        rows.append((*first, seed, layer + 1, head + 1, *numbers))
    return tuple(header), rows


def _head_numbers(run: Evidence, name: str, layer: int, head: int) -> Row:
    """Mean, low and high of a metric of a head; empty where a run did not measure it."""
    if name not in run.heads:
        return ("",) * 3
    found = run.heads[name]
    return tuple(part[layer][head] for part in (found.mean, found.low, found.high))


def gate_rows(families: list[Family]) -> tuple[tuple[str, ...], list[Row]]:
    """Gate, centre and span of every head with GPSA; empty where a head has none."""
    header = ("condition", "model", "data", "seed", *HEAD_OF_GPSA)
    rows: list[Row] = []
    for family in families:
        for condition in family.conditions:
            for run in condition.runs:
                names = (condition.label, run.record["model"]["name"], run.record["data"]["name"])
                seed = "" if run.seed is None else run.seed
                rows += [
                    (*names, seed, *("" if x is None else x for x in head))
                    for head in gpsa_heads(run)
                ]
    return header, rows


def gpsa_heads(run: Evidence) -> list[tuple[int | float | None, ...]]:
    """A row per head of the layers with GPSA; None for what a head does not have."""
    return [
        (layer, head, gate, *(centre or (None, None)), span)
        for layer, found in enumerate(run.gates, 1)
        if found is not None
        for head, (gate, centre, span) in enumerate(
            zip(found.gate or repeat(None), found.centre, found.span), 1
        )
    ]
