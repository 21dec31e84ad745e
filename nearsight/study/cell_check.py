"""Check that the files of a finished cell match its key, and set aside those that do not.

Somebody may have measured the cell again, trained in its folder, or restored files of another cell.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from nearsight.measure.folders import MEASURE_STAGE
from nearsight.protocol import protocol_from
from nearsight.runs import RECORD, WEIGHTS, differs_from, settle
from nearsight.runs.records import MeasureRecord, RunRecord, TrainedRun
from nearsight.study.design import Cell

ASIDE = "set-aside"


def run_problem(cell: Cell, record: RunRecord) -> str | None:
    """Describe how a finished run does not match its cell; None if it does."""
    if not isinstance(record, TrainedRun):
        return f"{RECORD} belongs to a model that was only measured"
    if record.seed != cell.seed:
        return f"seed {record.seed} instead of {cell.seed}"
    if record.data.hash != cell.data_hash:
        return f"data with hash {record.data.hash} instead of {cell.data_hash}"
    there, wanted = (
        asdict(settle(protocol)[0]) for protocol in (protocol_from(record.protocol), cell.protocol)
    )
    other = [name for name, value in wanted.items() if there[name] != value]
    return f"other values of {', '.join(other)}" if other else None


def measure_problem(cell: Cell, measure: MeasureRecord) -> str | None:
    """Describe how a measurement does not match its cell; None if it does."""
    if MEASURE_STAGE.name not in cell.stages:
        return None
    said = differs_from(cell.stages[MEASURE_STAGE.name], measure)
    if measure.data.hash != cell.data_hash:
        said.append(f"images with hash {measure.data.hash} instead of {cell.data_hash}")
    return ", ".join(said) or None


def set_aside(folder: Path, names: tuple[str, ...]) -> None:
    """Move files of a cell to its folder ``set-aside``, so that its stages write them again."""
    aside = folder / ASIDE
    aside.mkdir(exist_ok=True)
    for name in names:
        if (folder / name).exists():
            if (aside / name).is_dir():
                shutil.rmtree(aside / name)
            (folder / name).replace(aside / name)


def can_be_measured(folder: Path) -> bool:
    """Return whether a cell has its weights; cells of an exported study do not."""
    return (folder / WEIGHTS).is_file()
