"""Build the tables of a report: conditions, layers and heads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import repeat

import nearsight
from nearsight.measure.catalogue import RUN_NUMBERS, Metric, Number, metric, shown_in
from nearsight.report.read import ConditionRuns, Evidence, Family, paired_difference
from nearsight.report.write.cells import NOT_MEASURED, NOTHING, Cell, Kind, Marked
from nearsight.report.write.table import Column, Format, Row, Table
from nearsight.stats import Estimate

NULL_NAMES = {"uniform": "uniform attention", "box": "3x3 box"}
BOLD_NOTE = (
    "Bold marks the highest accuracy and the most local value (lowest MAD and entropy, highest "
    "self-mass) of a column, but only if its difference from every other condition, paired by "
    "seed, has a 95 % interval that excludes 0 (not corrected for several comparisons)."
)
UNREAD_NOTE = (
    " The output of an unread layer's patches reaches no output of the model; means and minima "
    "leave the layer out."
)
RUN_COLUMNS = (
    Column("condition", "condition"),
    Column("model", "model"),
    Column("data", "data"),
    Column("seed", "seed"),
)

KIND_METRICS = ("sink", "nmi")  # which tell, besides MAD and entropy, what a head does
KIND = "kind"


def shown_numbers(families: list[Family]) -> list[Number]:
    """Return the numbers to show: those of default metrics, and others that some run has."""
    conditions = [condition for family in families for condition in family.conditions]
    return [
        number
        for number in RUN_NUMBERS
        if (number.metric and metric(number.metric).default)
        or any(c.has(number.name) for c in conditions)
    ]


def stands_out(family: Family, condition: ConditionRuns, number: Number) -> bool:
    """Tell whether a condition is better than every other one, by intervals that exclude 0.

    The differences are paired by seed.
    """
    others = [other for other in family.conditions if other is not condition]
    differences = [paired_difference(condition, other, number.name) for other in others]
    return bool(others) and all(
        d is not None and (d.low > 0 if number.better > 0 else d.high < 0) for d in differences
    )


def conditions_table(families: list[Family]) -> Table:
    """Tabulate accuracy, MAD, entropy and self-mass of every condition.

    On the page the table also has the null lines of every family; as a file it has the model, data,
    grid and seeds of every condition.
    """
    numbers = shown_numbers(families)
    rows: list[Row] = []
    for family in families:
        everywhere = len(families) > 1
        rows.append(
            Row((family.name,), "group", only=("html", "latex") if everywhere else ("latex",))
        )
        rows += [Row(_condition_cells(family, c, numbers)) for c in family.conditions]
        for key, name in NULL_NAMES.items():
            nulls = (family.null.get(f"{key}_{number.metric}", "") for number in numbers)
            rows.append(Row((name, *repeat("", 5), *nulls, ""), "reference"))
    in_files: tuple[Format, ...] = ("csv", "json")
    return Table(
        "conditions",
        (
            Column("condition", "condition"),
            *(Column(x, x, only=in_files) for x in ("model", "data", "grid", "seeds")),
            Column("n", "num_seeds", kind="count", only=("latex",)),
            *(_number_column(number) for number in numbers),
            Column("heads below the 3x3 line", "heads_below_box"),
        ),
        rows,
        note="in brackets: 95 % interval over n seeds, or over images if n = 1",
        layout="summary",
    )


def _number_column(number: Number) -> Column:
    kind: Kind = "share" if number.percent else "number"
    bounds = ("low", "high", "n", "over")
    absent = NOT_MEASURED if number.metric else NOTHING
    return Column(number.heading, number.name, kind, bounds=bounds, absent=absent)


def _condition_cells(
    family: Family, condition: ConditionRuns, numbers: list[Number]
) -> tuple[Cell, ...]:
    record = condition.runs[0].record
    seeds = " ".join(str(run.seed) for run in condition.runs if run.seed is not None)
    return (
        Marked(condition.label, swatch=condition),
        record.model.name,
        record.data.name,
        family.grids_text,
        seeds,
        condition.num_seeds,
        *(
            Marked(condition.estimate(number.name), bold=stands_out(family, condition, number))
            if condition.has(number.name)
            else None
            for number in numbers
        ),
        condition.near_text,
    )


def interval_note(families: list[Family]) -> str:
    """Explain the intervals of the table of conditions."""
    conditions = [condition for family in families for condition in family.conditions]
    methods = "; or ".join(dict.fromkeys(condition.min_mad_method for condition in conditions))
    counts = {condition.num_seeds for condition in conditions if not condition.is_model}
    text = []
    if any(condition.is_model for condition in conditions):
        text.append(f"Models: 95 % interval over images (min MAD: {methods}).")
    if counts and max(counts) > 1:
        text.append("With several seeds: mean and 95 % t-interval over seeds.")
    if 1 in counts:
        text.append(
            "With one seed: 95 % interval over test images, which says nothing about other seeds "
            f"(min MAD: {methods}; accuracy: Wilson)."
        )
    return " ".join(text)


def layer_table(condition: ConditionRuns) -> Table:
    """Tabulate the smallest MAD and the mean of every metric over the heads, layer by layer."""
    over = condition.layer_estimate("mad", 0)
    means = (Column(f"mean {x.label}", x.name, "number") for x in condition.metrics)
    return Table(
        "layers",
        (Column("layer", "layer"), Column("min MAD", "min_mad", "number"), *means),
        [
            (
                f"{layer + 1} (unread)" if layer in condition.unread else layer + 1,
                condition.sorted_heads("mad", layer)[0],
                *(condition.layer_estimate(x.name, layer) for x in condition.metrics),
            )
            for layer in range(len(condition.runs[0].layers["mad"]))
        ],
        note=f"In small print: 95 % intervals over {over.n:,} {over.over}."
        f"{UNREAD_NOTE if condition.unread else ''}",
        layout="compact",
    )


def head_table(run: Evidence) -> Table:
    """Tabulate the metrics of every head of a run."""
    metrics = [metric(name) for name in run.heads]
    columns = (Column(x.label, x.name, "number") for x in metrics)
    more = kind_columns([run])
    return Table(
        "heads",
        (Column("layer.head", "layer.head"), *columns, *more),
        [
            (f"{layer}.{head}", *numbers, *kind_cells(run, more, layer, head))
            for layer, head, numbers in _heads(run, metrics)
        ],
        note=f"In small print: 95 % intervals over {run.measure.num_images:,} images.",
        layout="compact",
    )


def all_heads(families: list[Family]) -> Table:
    """Tabulate the metrics of every head of every run, for the files."""
    runs = list(named_runs(families))
    metrics = [x for x in shown_in("report") if any(x.name in run.heads for _, run in runs)]
    columns = (Column(x.label, x.name, "number", bounds=("low", "high")) for x in metrics)
    more = kind_columns([run for _, run in runs])
    return Table(
        "heads",
        (*RUN_COLUMNS, Column("layer", "layer"), Column("head", "head"), *columns, *more),
        [
            (*named, layer, head, *numbers, *kind_cells(run, more, layer, head))
            for named, run in runs
            for layer, head, numbers in _heads(run, metrics)
        ],
    )


def kind_columns(runs: list[Evidence]) -> tuple[Column, ...]:
    """Return the columns that ``--metrics all`` adds: sink, NMI, and the kind of the head."""
    layers = [layer for run in runs for layer in run.measure.layers]
    numbers = [x for x in KIND_METRICS if any(x in layer.metrics for layer in layers)]
    named = any(layer.head_names for layer in layers)
    return (
        *(Column(metric(x).label, x, "number", bounds=()) for x in numbers),
        *(Column("what it does", KIND),) * named,
    )


def kind_cells(run: Evidence, columns: Sequence[Column], layer: int, head: int) -> list[Cell]:
    """Return the cells of a head (both counted from 1) in the columns of `kind_columns`."""
    found = run.measure.layers[layer - 1]
    cells: list[Cell] = []
    for column in columns:
        if column.name == KIND:
            cells.append(found.head_names[head - 1] if found.head_names else None)
        else:
            entry = found.metrics.get(column.name)
            values = entry.per_head if entry else []
            cells.append(values[head - 1] if values else None)
    return cells


def _heads(
    run: Evidence, metrics: list[Metric]
) -> Iterator[tuple[int, int, tuple[Estimate | None, ...]]]:
    """Yield layer, head and metrics of every head, counted from 1; None where not measured."""
    for layer, of_layer in enumerate(run.heads["mad"].mean):
        for head in range(len(of_layer)):
            numbers = tuple(_head_estimate(run, x.name, layer, head) for x in metrics)
            yield layer + 1, head + 1, numbers


def _head_estimate(run: Evidence, name: str, layer: int, head: int) -> Estimate | None:
    if name not in run.heads:
        return None
    x, n = run.heads[name], run.measure.num_images
    return Estimate(x.mean[layer][head], x.low[layer][head], x.high[layer][head], n, "images")


def named_runs(families: list[Family]) -> Iterator[tuple[tuple[str | int | None, ...], Evidence]]:
    """Yield condition, model, data and seed of every run, and the run."""
    for family in families:
        for condition in family.conditions:
            for run in condition.runs:
                names = (condition.label, run.model_name, run.record.data.name)
                yield (*names, run.seed), run


def report_json(families: list[Family]) -> str:
    """Return run.json and measure.json of every run, by condition, as one JSON text."""
    conditions = [
        {
            "condition": condition.label,
            "family": family.name,
            "estimates": {
                number.name: vars(condition.estimate(number.name))
                for number in RUN_NUMBERS
                if condition.has(number.name)
            },
            "runs": [
                {"run": run.record.contents(), "measure": run.measure.contents()}
                for run in condition.runs
            ],
        }
        for family in families
        for condition in family.conditions
    ]
    content = {"schema_version": 1, "nearsight": nearsight.__version__, "conditions": conditions}
    return json.dumps(content, indent=1) + "\n"
