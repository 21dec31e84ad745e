"""A study to publish: everything its report needs, without weights, checkpoints and machine paths.

The folder that comes out is a study folder like any other: ``study report`` and ``study claims``
read it. Values per image stay behind; the effects that need them are taken from summary.json.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.runs.records import CELL_FILE, RUN_FILE, SUMMARY_FILE
from nearsight.study.analyse import load_study, write_summary
from nearsight.study.design import Cell
from nearsight.study.folder import STUDY, cell_folder, cell_json, read_study
from nearsight.study.show.study_page import study_report


def export_study(out: Path, target: Path) -> Path:
    """Copy a study without weights into a folder, with its page; the folder."""
    out, target = Path(out), Path(target)
    study = load_study(out)
    name = study.record.study
    if out.resolve() == target.resolve():
        raise UserError(f"expected another folder than the study's own, got {target}")
    if target.exists() and not target.is_dir():
        raise UserError(f"expected a folder to export to, but {target} is a file")
    if target.is_dir() and any(target.iterdir()):
        there = read_study(target).study if (target / STUDY).is_file() else "something else"
        if there != name:
            raise UserError(
                f"expected an empty folder or one with {name}, but {target} has {there}"
            )
    write_summary(study)
    target.mkdir(parents=True, exist_ok=True)
    for loaded in study.cells:
        cell, copy = loaded.cell, cell_folder(target, loaded.cell)
        copy.mkdir(parents=True, exist_ok=True)
        CELL_FILE.write(copy, without_folders(cell_json(cell), cell))
        if loaded.files is not None:
            record = without_folders(loaded.files.record.contents(), cell)
            record["provenance"]["command"] = f"nearsight study run {name}"
            RUN_FILE.write(copy, record)
            for file in (x for stage in cell.stage_objects for x in stage.exported):
                if (loaded.folder / file).is_file():  # older runs have no answers per image
                    shutil.copyfile(loaded.folder / file, copy / file)
    for file in (STUDY, SUMMARY_FILE.name):
        shutil.copyfile(out / file, target / file)
    study_report(target, target / "report.html")
    return target


def without_folders(contents: dict[str, Any], cell: Cell) -> dict[str, Any]:
    """cell.json or run.json with the names alone of the weights that a protocol starts from."""
    for setting in cell.weights:
        part, name = setting.split(".")
        settings = contents["protocol"][part]
        settings[name] = Path(settings[name]).name
    return contents
