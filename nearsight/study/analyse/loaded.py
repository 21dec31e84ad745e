"""A study folder read once: its cells, and the records of those that are finished."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nearsight.runs import RECORD, MeasuredFolder, read_measured, read_record
from nearsight.runs.records import SUMMARY_FILE, StudyRecord, SummaryRecord, TrainedRun
from nearsight.study.design import Cell
from nearsight.study.folder import CELLS, failure, read_cell, read_study


@dataclass(frozen=True)
class LoadedCell:
    """A cell of a study, and its records if it is finished."""

    cell: Cell
    folder: Path
    files: MeasuredFolder | None  # None: not finished
    failure: str | None  # why it failed, if it did


@dataclass(frozen=True)
class FinishedCell:
    """A cell that was trained to the end and measured."""

    cell: Cell
    files: MeasuredFolder

    @property
    def record(self) -> TrainedRun:
        assert isinstance(self.files.record, TrainedRun), "a cell is trained"
        return self.files.record


@dataclass(frozen=True)
class LoadedStudy:
    """Everything that analyses, claims and pages take from a study folder."""

    path: Path
    record: StudyRecord
    cells: tuple[LoadedCell, ...]

    @cached_property
    def finished(self) -> tuple[FinishedCell, ...]:
        return tuple(FinishedCell(x.cell, x.files) for x in self.cells if x.files)

    @cached_property
    def earlier_summary(self) -> SummaryRecord | None:
        """The summary.json that an earlier report left; None if there is none."""
        there = (self.path / SUMMARY_FILE.name).is_file()
        return SUMMARY_FILE.read(self.path) if there else None


def load_study(out: Path) -> LoadedStudy:
    """Read every file of a study folder that a report needs, each of them once."""
    out = Path(out)
    record = read_study(out)
    return LoadedStudy(out, record, tuple(_cell(out / CELLS / key) for key in record.cells))


def _cell(folder: Path) -> LoadedCell:
    cell = read_cell(folder)
    others = [stage for stage in cell.stage_objects if stage.output != RECORD]  # read here, once
    if all(stage.is_finished(folder) for stage in others) and (folder / RECORD).is_file():
        record = read_record(folder)
        if isinstance(record, TrainedRun) and record.is_finished:
            return LoadedCell(cell, folder, read_measured(folder, record), None)
    return LoadedCell(cell, folder, None, failure(folder))
