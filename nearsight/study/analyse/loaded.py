"""Read a study folder: its cells, and the records of the finished cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nearsight.core import UserError
from nearsight.runs import RECORD, MeasuredFolder, read_evaluate, read_measured, read_record
from nearsight.runs.records import (
    EVALUATE_FILE,
    SUMMARY_FILE,
    EvaluateRecord,
    StudyRecord,
    SummaryRecord,
    TrainedRun,
)
from nearsight.study.cell_check import measure_problem
from nearsight.study.design import Cell
from nearsight.study.folder import CELLS, failure, read_cell, read_study


@dataclass(frozen=True)
class LoadedCell:
    """A cell of a study, and its records if it is finished."""

    cell: Cell
    folder: Path
    files: MeasuredFolder | None  # None: not finished
    failure: str | None  # why the cell failed; None if it did not
    evaluation: EvaluateRecord | None = None  # of a finished cell, if its recipe evaluates


@dataclass(frozen=True)
class FinishedCell:
    """A cell that was trained to the end and measured."""

    cell: Cell
    files: MeasuredFolder
    evaluation: EvaluateRecord | None = None

    @property
    def record(self) -> TrainedRun:
        """The run.json of the cell."""
        assert isinstance(self.files.record, TrainedRun), "a cell is trained"
        return self.files.record


@dataclass(frozen=True)
class LoadedStudy:
    """The contents of a study folder that analyses, claims and pages need."""

    path: Path
    record: StudyRecord
    cells: tuple[LoadedCell, ...]

    @cached_property
    def finished(self) -> tuple[FinishedCell, ...]:
        """The finished cells."""
        return tuple(FinishedCell(x.cell, x.files, x.evaluation) for x in self.cells if x.files)

    @cached_property
    def earlier_summary(self) -> SummaryRecord | None:
        """The summary.json that an earlier report wrote, or None."""
        there = (self.path / SUMMARY_FILE.name).is_file()
        return SUMMARY_FILE.read(self.path) if there else None


def load_study(out: Path) -> LoadedStudy:
    """Read every file of a study folder that a report needs, each of them once.

    Raises:
        UserError: If a file is damaged, or a cell was not measured as its study asks.
    """
    out = Path(out)
    record = read_study(out)
    study = LoadedStudy(out, record, tuple(_cell(out / CELLS / key) for key in record.cells))
    _check_measurements(study)
    return study


def _check_measurements(study: LoadedStudy) -> None:
    """Raise UserError unless the numbers of all cells can be compared."""
    first: dict[str, FinishedCell] = {}  # by data set
    for x in study.finished:
        if problem := measure_problem(x.cell, x.files.measure):
            raise _incomparable(study, x, problem)
        of = first.setdefault(x.record.data.name, x)
        if (said := _images(x)) != (others := _images(of)):
            problem = f"it has {said}, but {of.files.path} has {others}"
            raise _incomparable(study, x, problem)
    conventions = {x.files.measure.convention.name: x for x in study.finished}
    if len(conventions) > 1:
        usual, other, *_ = conventions
        problem = f"it has the convention {other}, but other cells have {usual}"
        raise _incomparable(study, conventions[other], problem)


def _images(x: FinishedCell) -> str:
    measure = x.files.measure
    return f"{measure.num_images} images of the set {measure.data.hash}"


def _incomparable(study: LoadedStudy, x: FinishedCell, problem: str) -> UserError:
    return UserError(
        f"{x.files.path} ({x.cell.label}) was not measured as its study asks: {problem}; "
        f"run `nearsight study run {study.record.study} --out {study.path}` again to measure it "
        "again"
    )


def _cell(folder: Path) -> LoadedCell:
    cell = read_cell(folder)
    others = [stage for stage in cell.stage_objects if stage.output != RECORD]
    if all(stage.is_finished(folder) for stage in others) and (folder / RECORD).is_file():
        record = read_record(folder)
        if isinstance(record, TrainedRun) and record.is_finished:
            evaluates = any(stage.output == EVALUATE_FILE.name for stage in others)
            evaluation = read_evaluate(folder) if evaluates else None
            return LoadedCell(cell, folder, read_measured(folder, record), None, evaluation)
    return LoadedCell(cell, folder, None, failure(folder))
