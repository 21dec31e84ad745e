"""The tables of evaluations: models and controls side by side, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.core import console
from nearsight.report.read import (
    EvaluatedFolder,
    paired_results,
    read_evaluations,
    result_estimate,
)
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import FORMATS, Column, Row, Table
from nearsight.runs.records import TaskResult

SHOWN = 2  # numbers of a method that fit into a terminal; more of them are on the page
WITHOUT_TERMINAL = tuple(name for name in FORMATS if name != "terminal")


def evaluation_tables(folders: Sequence[EvaluatedFolder]) -> list[Table]:
    """Return one table for each task, method and data set, and one of paired differences."""
    methods: dict[tuple[str, str, str, str], list[tuple[EvaluatedFolder, TaskResult]]] = {}
    for folder in folders:
        for result in folder.record.results:
            key = (result.task, result.method, result.data.name, result.data.val)
            methods.setdefault(key, []).append((folder, result))
    tables = [_method_table(key[:3], found) for key, found in methods.items()]
    pairs = pair_table(folders)
    return [*tables, pairs] if pairs else tables


def _method_table(
    key: tuple[str, ...], found: Sequence[tuple[EvaluatedFolder, TaskResult]]
) -> Table:
    task, method, data = key
    names = list(dict.fromkeys(number.name for _, r in found for number in r.numbers))
    columns = (
        Column("", "subject", width=32, wrap=True),
        Column("layer", "layer", "count"),
        *(
            Column(
                name,
                name.replace(" ", "_"),
                "share",
                digits=1,
                only=FORMATS if number < SHOWN else WITHOUT_TERMINAL,
            )
            for number, name in enumerate(names)
        ),
    )
    rows: list[tuple[Cell, ...] | Row] = []
    seen = set()
    for folder, result in sorted(found, key=lambda x: x[1].control is not None):
        if (result.control, result.identity, result.layer, folder.name) in seen:
            continue
        seen.add((result.control, result.identity, result.layer, folder.name))
        numbers = {number.name: result_estimate(result, number) for number in result.numbers}
        label = folder.name
        if result.control:
            label = f"{result.control} ({folder.name})" if len(found) > 1 else result.control
        cells = (label, result.layer, *(numbers.get(name) for name in names))
        rows.append(Row(cells, "reference" if result.control else "data"))
    first = found[0][1]
    note = (
        f"95 % intervals over {first.data.num_val:,} images of {data}; "
        f"{first.data.num_train:,} training images. {settings_text(first)}"
    )
    return Table(f"{task}-{method}", columns, rows, f"{task}, {method}", note)


def settings_text(result: TaskResult) -> str:
    """Return the settings of a result in one line."""
    return "; ".join(f"{name}: {value}" for name, value in result.settings.items())


def pair_table(folders: Sequence[EvaluatedFolder]) -> Table | None:
    """Return the paired differences of every pair of models; None without any."""
    rows = [
        (f"{pair.one} − {pair.other}", f"{pair.method} {pair.number}", pair.estimate)
        for pair in paired_results(folders)
    ]
    if not rows:
        return None
    columns = (
        Column("", "pair", width=30),
        Column("", "number", width=20),
        Column("difference", "difference", "points", digits=1, plus=True),
    )
    note = "Paired over images: both models are resampled together."
    return Table("evaluation-pairs", columns, rows, "paired differences", note)


def print_evaluations(folders: Sequence[Path]) -> None:
    """Print the tables of folders that were evaluated."""
    screen = console()
    for table in evaluation_tables(read_evaluations(folders)):
        screen.print(table.rich())
        screen.say(table.note)
