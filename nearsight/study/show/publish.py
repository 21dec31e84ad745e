"""Export a study: everything that its report needs, without weights, checkpoints and local paths.

The export is a study folder like any other: ``study report`` and ``study claims`` read it, and
``study run --reuse`` reuses its finished cells. Instead of its values per image, a cell keeps which
test images it classifies correctly, and the MAD of its most local head on each of them.

A study can be exported into an earlier export of it. Finished cells are then added, and cells that
differ in their software only are replaced. A study can thus be made cell by cell, in several
sessions and on several machines.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.runs.records import CELL_FILE, RUN_FILE, STUDY_FILE, SUMMARY_FILE
from nearsight.study.analyse import (
    LoadedCell,
    LoadedStudy,
    load_study,
    read_minima,
    write_minima,
    write_summary,
)
from nearsight.study.design import Cell
from nearsight.study.folder import (
    CELLS,
    STUDY,
    cell_folder,
    cell_json,
    is_finished,
    read_cells,
    read_study,
)
from nearsight.study.show.study_page import study_report


@dataclass(frozen=True)
class Publication:
    """The folder of an exported study, and how its finished cells changed."""

    path: Path
    added: int  # cells that the folder did not have
    replaced: int  # cells that replace cells made with other software
    kept: int  # cells of an earlier export that are not in the exported study

    def __str__(self) -> str:
        return f"{self.added} finished cells added, {self.replaced} replaced, {self.kept} kept"


def publish_study(out: Path, target: Path) -> Publication:
    """Export a study, finished or not, without its weights, and write its page.

    Args:
        out: The study folder.
        target: A new or empty folder, or an earlier export of the same study, to add to.

    Raises:
        UserError: If the target is the study folder itself, a file, or a folder with other files.
    """
    study = load_study(Path(out))
    found = add_cells(study, Path(target))
    write_summary(study)
    if not found.kept:  # the study's own summary has effects over images that cells cannot give
        shutil.copyfile(study.path / SUMMARY_FILE.name, found.path / SUMMARY_FILE.name)
    study_report(found.path, found.path / "report.html")
    return found


def add_cells(study: LoadedStudy, target: Path) -> Publication:
    """Copy the cells of a study into a folder, as ``publish_study`` describes."""
    earlier = _earlier_cells(study, target)
    new = {x.cell.key: _exported(x.cell) for x in study.cells}
    finished = [new[x.cell.key] for x in study.cells if x.files]
    kept = [cell for cell in earlier if not _like(cell, finished)]
    target.mkdir(parents=True, exist_ok=True)
    listed: dict[str, Cell] = {}
    for x in study.cells:
        cell = new[x.cell.key]
        there = None if x.files else _like(cell, kept)
        if there is None:
            _copy_cell(x, cell, target, study.record.study)
        listed[(there or cell).key] = there or cell
    listed |= {cell.key: cell for cell in kept}
    _write_study(study, target, list(listed), bool(kept))
    for folder in (target / CELLS).iterdir():
        if folder.name not in listed:
            shutil.rmtree(folder)
    before = {cell.key for cell in earlier}
    added = sum(cell.key not in before for cell in finished)
    replaced = sum(cell.key not in listed for cell in earlier)
    return Publication(target, added - replaced, replaced, len(kept))


def _earlier_cells(study: LoadedStudy, target: Path) -> list[Cell]:
    """Return the finished cells of an earlier export in the target; none if it is empty."""
    name = study.record.study
    if study.path.resolve() == target.resolve():
        raise UserError(f"{target} is the study folder itself; give another folder to export to")
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is a file; give a folder to export to")
    if not target.is_dir() or not any(target.iterdir()):
        return []
    there = read_study(target).study if (target / STUDY).is_file() else "something else"
    if there != name:
        raise UserError(
            f"{target} contains {there}; give an empty folder, or one with an export of {name}"
        )
    return [cell for cell in read_cells(target) if is_finished(cell_folder(target, cell))]


def _like(cell: Cell, others: Sequence[Cell]) -> Cell | None:
    """Return which of the others has the same key, or differs in its software only."""
    same = (x for x in others if x.key == cell.key or cell.is_like_but_for_software(x))
    return next(same, None)


def _exported(cell: Cell) -> Cell:
    """Return a cell in the form that an export stores."""
    return Cell.of(without_folders(cell_json(cell), cell), cell.key)


def _copy_cell(x: LoadedCell, cell: Cell, target: Path, name: str) -> None:
    """Write the files of a cell that an export keeps."""
    copy = cell_folder(target, cell)
    copy.mkdir(parents=True, exist_ok=True)
    CELL_FILE.write(copy, cell_json(cell))
    if x.files is None:
        return
    record = without_folders(x.files.record.contents(), x.cell)
    record["provenance"]["command"] = f"nearsight study run {name}"
    RUN_FILE.write(copy, record)
    for file in (file for stage in x.cell.stage_objects for file in stage.exported):
        if (x.folder / file).is_file():  # older runs have no answers per image
            shutil.copyfile(x.folder / file, copy / file)
    if minima := read_minima(x):
        write_minima(copy, minima)


def _write_study(study: LoadedStudy, target: Path, keys: list[str], added_to: bool) -> None:
    """Write study.json; an export that cells are added to keeps its own primary contrast."""
    contents = study.record.contents() | {"cells": keys}
    if added_to:
        there = read_study(target).contents()
        for name in ("primary", "virtual_patience"):
            contents.pop(name, None)
            contents |= {name: there[name]} if name in there else {}
    STUDY_FILE.write(target, contents)


def without_folders(contents: dict[str, Any], cell: Cell) -> dict[str, Any]:
    """Shorten the paths of weight files in cell.json or run.json to the names of the files."""
    for setting in cell.weights:
        part, name = setting.split(".")
        settings = contents["protocol"][part]
        settings[name] = Path(settings[name]).name
    return contents
