"""Tabulate evaluations: models and controls side by side, and their paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.core import console, write_bytes
from nearsight.report.figures.drawing import whole_figure
from nearsight.report.figures.evaluation import evaluation_drawings
from nearsight.report.read import (
    EvaluatedFolder,
    paired_results,
    published_beside,
    read_evaluations,
    result_estimate,
)
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import FORMATS, Column, Row, Table
from nearsight.runs.records import TaskResult

SHOWN = 2  # numbers of a method that fit into a terminal; the page shows all
IN_COLUMNS = ("layer", "num_train", "num_val")  # settings that have a column or are in the note
WITHOUT_TERMINAL = tuple(name for name in FORMATS if name != "terminal")


def evaluation_tables(folders: Sequence[EvaluatedFolder]) -> list[Table]:
    """Return a table for every task, method and data set, and one of paired differences."""
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
        rows.append(Row(cells))
    names_of_models = [folder.name for folder, _ in found]
    published = published_beside(method, data, names_of_models)
    for score in published:
        values = (score.value if name == score.number else None for name in names)
        rows.append(Row((f"published: {score.model}", None, *values), "reference"))
    first = found[0][1]
    note = (
        f"95 % intervals over {first.data.num_val:,} images of {data}; "
        f"{first.data.num_train:,} training images. {settings_text(first)}"
    )
    if published:
        told = dict.fromkeys(f"{score.source} ({score.setting})" for score in published)
        note += f". Published scores were obtained with other weights and data: {'; '.join(told)}"
    return Table(f"{task}-{method}", columns, rows, f"{task}, {method}", note)


def settings_text(result: TaskResult) -> str:
    """Write the settings of a result in one line, without those that columns already show."""
    shown = {k: x for k, x in result.settings.items() if k not in IN_COLUMNS and x not in ({}, "")}
    return "; ".join(f"{name.replace('_', ' ')}: {_told(x)}" for name, x in shown.items())


def _told(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {x}" for name, x in value.items())
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value)


def pair_table(folders: Sequence[EvaluatedFolder]) -> Table | None:
    """Tabulate the paired differences of every pair of models; None if there is no pair."""
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
    note = "Paired over images: the same images are resampled for both models."
    return Table("evaluation-pairs", columns, rows, "paired differences", note)


def write_evaluation_figures(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write the figures of evaluated folders into ``out`` as SVG files and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for drawing in evaluation_drawings(read_evaluations(folders)):
        paths.append(out / f"{drawing.key}.svg")
        write_bytes(paths[-1], whole_figure(drawing, "svg"))
    return paths


def print_evaluations(folders: Sequence[Path]) -> None:
    """Print the tables of evaluated folders."""
    screen = console()
    for table in evaluation_tables(read_evaluations(folders)):
        screen.print(table.rich())
        screen.say(table.note)
