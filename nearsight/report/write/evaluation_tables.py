"""Tabulate evaluations: models and controls side by side, and their paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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

SHOWN = 2  # numbers of a method that fit into a terminal; the page shows all of them
IN_COLUMNS = ("layer", "num_train", "num_val")  # settings that the table shows in another place
WITHOUT_TERMINAL = tuple(name for name in FORMATS if name != "terminal")


def evaluation_tables(
    folders: Sequence[EvaluatedFolder], wanted: Collection[tuple[str, str]] | None = None
) -> list[Table]:
    """Return a table for every task, method and data set, and a table of paired differences.

    Args:
        folders: The evaluations of several models.
        wanted: Only tabulate these pairs of a task and a method. By default all.
    """
    methods: dict[tuple[str, str, str, str], list[tuple[EvaluatedFolder, TaskResult]]] = {}
    for folder in folders:
        for result in folder.record.results:
            if wanted is not None and (result.task, result.method) not in wanted:
                continue
            key = (result.task, result.method, result.data.name, result.data.val)
            methods.setdefault(key, []).append((folder, result))
    tables = [_method_table(key[:3], found) for key, found in methods.items()]
    pairs = pair_table(folders, wanted)
    return [*tables, pairs] if pairs else tables


def _method_table(
    key: tuple[str, ...], found: Sequence[tuple[EvaluatedFolder, TaskResult]]
) -> Table:
    task, method, data = key
    names = list(dict.fromkeys(number.name for _, r in found for number in r.numbers))
    own = [(folder.name, result.layer) for folder, result in found if result.control is None]
    with_distance = len(own) > len(dict(own)) and any(x.layer_distances for x, _ in found)
    distance = (Column("MAD", "mad", "number", digits=2),) if with_distance else ()
    columns = (
        Column("model or control", "subject", width=32, wrap=True),
        Column("layer", "layer", "count"),
        *distance,
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
    for label, folder, result in _labelled(found):
        numbers = {number.name: result_estimate(result, number) for number in result.numbers}
        far = (_distance(folder, result),) if with_distance else ()
        rows.append(Row((label, result.layer, *far, *(numbers.get(name) for name in names))))
    names_of_models = [folder.name for folder, _ in found]
    published = [x for x in published_beside(method, data, names_of_models) if x.number in names]
    for score in published:
        alike = [x for x in published if (x.model, x.number) == (score.model, score.number)]
        label = f"published: {score.model}" + (f", {score.setting}" if len(alike) > 1 else "")
        values = (score.value if name == score.number else None for name in names)
        shown = FORMATS if names.index(score.number) < SHOWN else WITHOUT_TERMINAL
        cells = (label, None, *(None for _ in distance), *values)
        rows.append(Row(cells, "reference", shown))
    first = found[0][1].data
    trained = f"; {first.num_train:,} training images" if first.num_train else ""
    note = (
        f"95 % intervals over {first.num_val:,} images of {data}{trained}. "
        f"{_settings_of_all(found)}"
    )
    if with_distance:
        note += ". MAD: mean attention distance of the layer's heads, in grid diagonals"
    if published:
        told = dict.fromkeys(f"{score.source} ({score.setting})" for score in published)
        note += f". Published scores were obtained with other weights and data: {'; '.join(told)}"
    return Table(f"{task}-{method}", columns, rows, f"{task}, {method}", note)


def _labelled(
    found: Sequence[tuple[EvaluatedFolder, TaskResult]],
) -> Iterator[tuple[str, EvaluatedFolder, TaskResult]]:
    """Yield the label, folder and result of every row: models by layer, then controls.

    A control that is the same for several models has one row, without the name of a model.
    """
    own = [(folder, result) for folder, result in found if result.control is None]
    models = list(dict.fromkeys(folder.name for folder, _ in own))
    for folder, result in sorted(own, key=lambda x: (models.index(x[0].name), x[1].layer)):
        yield folder.name, folder, result
    controls = {
        (result.control, result.identity, result.layer): (folder, result)
        for folder, result in found
        if result.control is not None
    }
    kinds = Counter(control for control, _, _ in controls)
    for (control, _, _), (folder, result) in controls.items():
        assert control is not None
        yield f"{control} ({folder.name})" if kinds[control] > 1 else control, folder, result


def _distance(folder: EvaluatedFolder, result: TaskResult) -> float | None:
    """Return the MAD of the layer of a result; None for a control, or if it is not known."""
    known = folder.layer_distances
    return known[result.layer - 1] if not result.control and result.layer <= len(known) else None


def _settings_of_all(found: Sequence[tuple[EvaluatedFolder, TaskResult]]) -> str:
    """Write the settings that all models share, then those in which models differ, by model.

    At the end are the settings of single numbers, such as another rule for unlabelled pixels.
    """
    of_models = {folder.name: result for folder, result in found if result.control is None}
    all_results = list(of_models.values()) or [result for _, result in found]
    first = all_results[0]
    shared = {
        name: x
        for name, x in first.settings.items()
        if all(result.settings.get(name) == x for result in all_results)
    }
    said = [
        _settings_text(shared),
        *(_settings_text(x.settings, shared, model) for model, x in of_models.items()),
        *(_settings_text(x.details.get("settings", {}), shared, x.name) for x in first.numbers),
    ]
    return ". ".join(filter(None, said))


def _settings_text(
    settings: Mapping[str, Any], without: Mapping[str, Any] | None = None, of: str = ""
) -> str:
    """Write settings in one line.

    Args:
        settings: The settings; those that the table shows in another place are left out.
        without: Settings that were written before; they are left out where they are the same.
        of: Whose settings they are, to begin the line.
    """
    told = without or {}
    shown = {
        name: x
        for name, x in settings.items()
        if name not in IN_COLUMNS and x not in ({}, "") and told.get(name) != x
    }
    text = "; ".join(f"{name.replace('_', ' ')}: {_told(x)}" for name, x in shown.items())
    return f"{of}: {text}" if of and text else text


def _told(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {x}" for name, x in value.items())
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value)


def pair_table(
    folders: Sequence[EvaluatedFolder], wanted: Collection[tuple[str, str]] | None = None
) -> Table | None:
    """Tabulate the paired differences of every pair of models; None if there is no pair."""
    rows = [
        (f"{pair.one} − {pair.other}", f"{pair.method} {pair.number}", pair.estimate)
        for pair in paired_results(folders)
        if wanted is None or (pair.task, pair.method) in wanted
    ]
    if not rows:
        return None
    columns = (
        Column("models", "pair", width=30),
        Column("number", "number", width=20),
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


def print_evaluations(
    folders: Sequence[Path], methods: Collection[tuple[str, str]] | None = None
) -> None:
    """Print the tables of evaluated folders.

    Args:
        folders: Folders with an evaluate.json.
        methods: Only print these pairs of a task and a method. By default all.
    """
    screen = console()
    for table in evaluation_tables(read_evaluations(folders), methods):
        screen.print(table.rich())
        screen.say(table.note)
