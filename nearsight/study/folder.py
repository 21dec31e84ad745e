"""Read and write a study folder: study.json, and cells/<key>/ with one run each.

cell.json    the contents of the cell (design/plan.py)
log.txt      the output of its worker
failed.json  why the cell failed; removed when it is tried again
queued       exists while an engine has the cell, whether or not its worker runs
worker.lock  held by the worker while it runs
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from nearsight.core import UserError, hold_lock, is_locked
from nearsight.runs import RECORD, SCHEMA_VERSION, read_log
from nearsight.runs.records import CELL_FILE, CELL_VERSION, FAILED_FILE, STUDY_FILE, StudyRecord
from nearsight.study.design import (
    DEFAULT_STAGES,
    Cell,
    PrimaryContrast,
    Recipe,
    Scale,
    stages_named,
)

CELLS, CELL, STUDY, FAILED = "cells", CELL_FILE.name, STUDY_FILE.name, FAILED_FILE.name
WORKER_LOG, WORKER_LOCK, RUNNER_LOCK = "log.txt", "worker.lock", "lock"
QUEUED, QUEUE_LOCK = "queued", "queue.lock"  # the runner holds it; testing it disturbs nobody


State = Literal["finished", "running", "failed", "queued", "stopped", "waiting"]


def cell_folder(out: Path, cell: Cell) -> Path:
    """Return the folder of a cell."""
    return Path(out) / CELLS / cell.key


def state_of(folder: Path) -> State:
    """Return the state of a cell.

    A cell is running while its worker holds its lock, and queued while a runner has given it to an
    engine that has not started it. A stopped cell was begun and continues when the study is run
    again. A waiting cell was not begun.
    """
    if is_finished(folder):
        return "finished"
    if at_work(folder):
        return "running"
    if (folder / FAILED).is_file():
        return "failed"
    if (folder / QUEUED).is_file() and is_locked(folder.parents[1] / QUEUE_LOCK):
        return "queued"
    return "stopped" if (folder / RECORD).is_file() else "waiting"


def at_work(folder: Path) -> bool:
    """Return whether a worker holds the lock of the cell."""
    return is_locked(folder / WORKER_LOCK)


def is_finished(folder: Path) -> bool:
    """Return whether all stages of the cell in a folder have ended."""
    if not (folder / CELL).is_file():
        return False
    names = CELL_FILE.read(folder).stages or DEFAULT_STAGES  # version 1 does not name stages
    return all(stage.is_finished(folder) for stage in stages_named(list(names)))


def epochs_done(folder: Path) -> int:
    """Return the number of epochs that a cell has trained, from its log."""
    lines = read_log(folder)
    return lines[-1].epoch if lines else 0


def write_study(
    out: Path,
    name: str,
    cells: Sequence[Cell],
    question: str = "",
    primary: PrimaryContrast | None = None,
    virtual_patience: int | None = None,
    scale: Scale | None = None,
) -> None:
    """Write study.json and the folders of all cells; keep cells that exist.

    If a cell is finished already, the primary contrast and the patience of virtual early stopping
    in study.json stay as they are, because they must be chosen before there are results.
    """
    out = Path(out)
    there = read_study(out) if (out / STUDY).is_file() else None
    finished = [] if there is None else [x for x in there.cells if is_finished(out / CELLS / x)]
    named = None if primary is None else asdict(primary)
    if there is not None and finished:
        named = there.primary.contents() if there.primary else None
        virtual_patience = there.virtual_patience
    (out / CELLS).mkdir(parents=True, exist_ok=True)
    for cell in cells:
        folder = cell_folder(out, cell)
        folder.mkdir(exist_ok=True)
        write_cell(folder, cell)  # a recipe may have renamed its factors
    before = [] if there is None else there.cells
    keys = list(dict.fromkeys([*before, *(cell.key for cell in cells)]))
    chosen = {"scale": scale, "primary": named, "virtual_patience": virtual_patience}
    given = {key: x for key, x in chosen.items() if x is not None}
    told = {"study": name, "question": question, **given, "cells": keys}
    STUDY_FILE.write(out, {"schema_version": SCHEMA_VERSION, **told})


def scale_in(out: Path | None, recipe: Recipe, scale: Scale | None) -> Scale | None:
    """Return the scale to plan: the given one, or that of the folder, or else the paper's.

    Raises:
        UserError: If the folder holds this study at another scale than the given one.
    """
    if not recipe.scales:
        return scale  # the recipe rejects it unless it is None
    there = read_study(out) if out is not None and (Path(out) / STUDY).is_file() else None
    if there is None or there.study != recipe.name:
        return scale or "paper"
    held = there.scale or "paper"  # older studies had no choice
    if scale not in (None, held):
        raise UserError(
            f"{out} holds {recipe.name} at the {held} scale; give another --out for the {scale} "
            "scale"
        )
    return held


def write_cell(folder: Path, cell: Cell) -> None:
    """Write cell.json, unless it already has these contents."""
    there = read_cell(folder) if (folder / CELL).is_file() else None
    if there != cell or there.accepted != cell.accepted:
        CELL_FILE.write(folder, cell_json(cell))


def cell_json(cell: Cell) -> dict[str, Any]:
    """Return the contents of cell.json, with the key under which the cell is stored."""
    told = {"schema_version": CELL_VERSION, "key": cell.key, "key_format": cell.key_format}
    accepted = {"accepted": list(cell.accepted)} if cell.accepted else {}
    return told | cell.contents() | accepted


def read_cell(folder: Path) -> Cell:
    """Read the cell of a folder; its key is the name of the folder."""
    return Cell.of(CELL_FILE.read(folder).contents(), key=folder.resolve().name)


def read_study(out: Path) -> StudyRecord:
    """Read study.json: the recipe's name and question, and the keys of its cells in order."""
    return STUDY_FILE.read(out)


def read_cells(out: Path) -> list[Cell]:
    """Read the cells of a study folder, in their order."""
    return [read_cell(Path(out) / CELLS / key) for key in read_study(out).cells]


def fail(folder: Path, reason: str) -> None:
    """Record why a cell failed."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    FAILED_FILE.write(folder, {"schema_version": SCHEMA_VERSION, "reason": reason, "when": when})


def failure(folder: Path) -> str | None:
    """Return why a cell failed, or None if it did not."""
    return FAILED_FILE.read(folder).reason if (folder / FAILED).is_file() else None


def reuse(out: Path, cells: Sequence[Cell], other: Path) -> list[str]:
    """Copy finished cells of another study into this one, with the factors of this one.

    The caller holds the lock of the study folder. The function waits for workers that have outlived
    their runner.

    Returns:
        The keys of the cells that were copied.
    """
    copied = []
    for cell in cells:
        source, target = cell_folder(other, cell), cell_folder(out, cell)
        if is_finished(source) and not is_finished(target):
            temporary = target.with_name(f".{target.name}.copy")
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(source, temporary)
            write_cell(temporary, cell)
            with hold_lock(target / WORKER_LOCK):
                shutil.rmtree(target, ignore_errors=True)
                temporary.rename(target)
            copied.append(cell.key)
    return copied
