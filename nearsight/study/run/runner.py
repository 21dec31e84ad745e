"""Plan and run a study, from the recipe to the finished cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nearsight.core import UserError, hold_lock
from nearsight.measure.folders import MEASUREMENT_FILES
from nearsight.runs import MEASURE, read_measured, read_record
from nearsight.study.cell_check import (
    ASIDE,
    can_be_measured,
    measure_problem,
    run_problem,
    set_aside,
)
from nearsight.study.design import Cell, Recipe, Scale, cells_of, keep_stored
from nearsight.study.engines import EngineOptions, open_engine
from nearsight.study.folder import (
    CELL,
    RUNNER_LOCK,
    STUDY,
    State,
    cell_folder,
    read_cells,
    reuse,
    scale_in,
    state_of,
    write_study,
)
from nearsight.study.run.reuse import Accept, take_over


@dataclass(frozen=True)
class Plan:
    """The cells of a study, and the state of each cell in the study folder."""

    name: str
    cells: tuple[Cell, ...]
    states: tuple[State, ...]
    scale: Scale | None = None  # None: the recipe has only one

    @property
    def todo(self) -> list[Cell]:
        """The cells that are not finished."""
        return [x for x, state in zip(self.cells, self.states) if state != "finished"]


def plan_cells(
    recipe: Recipe,
    seeds: Sequence[int] | None = None,
    out: Path | None = None,
    data_root: Path | None = None,
    device: str = "cpu",
    scale: Scale | None = None,
) -> Plan:
    """Return the cells of a study and their state in its folder, without writing anything.

    Args:
        recipe: The study.
        seeds: The seeds to run. None means those of the recipe.
        out: The study folder, or None if there is none yet.
        data_root: The folder of data sets.
        device: The device on which every cell runs.
        scale: The scale of the study. None means that of its folder, or else the paper's.

    Raises:
        UserError: If a data set is missing, or the folder holds the study at another scale.
    """
    from nearsight.data.sets import load_dataset

    scale = scale_in(out, recipe, scale)
    study = recipe.study(scale)
    chosen = range(study.num_seeds) if seeds is None else seeds
    settings = {x.protocol.data.name: x.protocol.data for x in study.conditions}
    for name in settings:
        numbers = {
            x.protocol.data.classes for x in study.conditions if x.protocol.data.name == name
        }
        if len(numbers) > 1:
            raise UserError(
                f"the conditions use different numbers of classes of {name}; give all of them the "
                "same data.classes"
            )
    try:
        hashes = {name: load_dataset(data, data_root).hash for name, data in settings.items()}
    except UserError as error:
        if scale != "paper":
            raise
        raise UserError(f"{error}. For a small version of the study, add --scale laptop") from error
    stored = read_cells(out) if out is not None and (Path(out) / STUDY).is_file() else []
    cells = tuple(keep_stored(cells_of(study, chosen, hashes, device), stored))
    states = tuple("waiting" if out is None else state_of(cell_folder(out, x)) for x in cells)
    return Plan(recipe.name, cells, states, scale)


def expected_seconds(plan: Plan, workers: int, data_root: Path | None = None) -> float:
    """Estimate how long the unfinished cells take on this machine, without early stopping.

    calibration.py lists what the estimate assumes, and ``study plan`` prints it.
    """
    from nearsight.study.run.calibration import epoch_seconds, num_cores, study_seconds

    known: dict[str, float] = {}
    work = []
    for cell in plan.todo:
        same = str(asdict(cell.protocol))
        if same not in known:
            known[same] = epoch_seconds(cell.protocol, cell.device, data_root)
        work.append(known[same] * cell.protocol.epochs)
    return study_seconds(work, workers, plan.cells[0].processes, num_cores())


def run_study(
    recipe: Recipe,
    out: Path,
    seeds: Sequence[int] | None = None,
    workers: int | None = None,
    data_root: Path | None = None,
    device: str = "cpu",
    retry_failed: bool = False,
    reuse_from: Path | None = None,
    engine: EngineOptions | None = None,
    accept: Accept | None = None,
    scale: Scale | None = None,
    only_identical: bool = False,
) -> list[Cell]:
    """Run the missing cells of a study, and return those that are not finished afterwards.

    Nothing is written before the lock of the study folder is held, because another process may be
    running the same study.

    Args:
        recipe: The study to run.
        out: The study folder.
        seeds: The seeds to run. None means those of the recipe.
        workers: Run this many cells at a time. None means as many as the engine allows.
        data_root: The folder of data sets.
        device: The device on which every cell runs.
        retry_failed: Run failed cells again.
        reuse_from: Copy the finished cells of this study folder first.
        engine: Where cells run. None means on this machine.
        accept: Called with the differences if cells to reuse were made with other software;
            returns whether to reuse them. None never reuses such cells.
        scale: The scale of the study. None means that of its folder, or else the paper's.
        only_identical: Do not reuse cells that were made with other software, and do not ask.
    """
    from nearsight.data.sets import data_root as found_root
    from nearsight.study.run.scheduler import run_cells
    from nearsight.study.run.watcher import Watcher

    plan = plan_cells(recipe, seeds, out, data_root, device, scale)
    root = found_root(data_root).resolve()
    watcher = Watcher()
    cells = list(plan.cells)
    if reuse_from is not None:
        cells, notes = take_over(cells, Path(out), reuse_from, accept, only_identical)
        for note in notes:
            watcher.note(note)
    Path(out).mkdir(parents=True, exist_ok=True)
    with hold_lock(Path(out) / RUNNER_LOCK, "runner"):
        study = recipe.study(plan.scale)
        chosen = study.primary, study.virtual_patience
        write_study(out, recipe.name, cells, recipe.question, *chosen, plan.scale)
        if reuse_from is not None:
            copied = reuse(out, cells, reuse_from)
            watcher.note(f"{len(copied)} finished cells copied from {reuse_from}")
        for note in set_others_aside(out, cells):
            watcher.note(note)
        place = open_engine(engine or EngineOptions(), out, root, cells, workers)
        try:
            run_cells(out, cells, place, workers or place.room(), retry_failed, watcher)
        finally:
            place.close()
    return [cell for cell in cells if state_of(cell_folder(out, cell)) != "finished"]


def set_others_aside(out: Path, cells: Sequence[Cell]) -> list[str]:
    """Set aside the files of finished cells that do not match their keys.

    The stages that wrote those files then run again. The caller holds the lock of the study folder.

    Returns:
        A sentence for every cell whose files were set aside.
    """
    notes = []
    for cell in cells:
        folder = cell_folder(out, cell)
        if state_of(folder) != "finished":
            continue
        if problem := run_problem(cell, read_record(folder)):
            names = tuple(path.name for path in folder.iterdir() if path.name not in (CELL, ASIDE))
            again = "trained"
        elif (problem := _problem_of_measurement(cell, folder)) and can_be_measured(folder):
            names, again = MEASUREMENT_FILES, "measured"
        else:
            continue
        set_aside(folder, names)
        notes.append(
            f"{cell.label}: {problem}. Its files were moved to {folder / ASIDE}, and the cell is "
            f"{again} again"
        )
    return notes


def _problem_of_measurement(cell: Cell, folder: Path) -> str | None:
    """Describe how a measurement does not match its cell; None if it does or there is none."""
    if not (folder / MEASURE).is_file():
        return None
    try:
        measure = read_measured(folder, read_record(folder)).measure
    except UserError as error:  # damaged, or files of two measurements
        return str(error)
    return measure_problem(cell, measure)
