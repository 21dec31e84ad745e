"""Run the cells of a study on an engine, and record how each ended.

The runner holds the lock of the study folder. It starts a worker per cell, watches it, and starts
the next when one ends. A worker that was lost is started again. For a cell that failed, the reason
is recorded, and the other cells continue. If the runner is killed, its workers stop too, and the
next runner continues.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearsight.core import UserError, hold_lock, remove_file
from nearsight.study.design import Cell
from nearsight.study.engines import POLL_SECONDS, Ending, Engine, Job
from nearsight.study.folder import (
    FAILED,
    QUEUE_LOCK,
    QUEUED,
    cell_folder,
    fail,
    failure,
    is_finished,
)
from nearsight.study.run.watcher import Watcher

MOST_LOSSES = 3  # times that the worker of a cell may be lost before the cell counts as failed


@dataclass
class Results:
    """The keys of the cells that finished or failed in this call."""

    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def run_cells(
    out: Path,
    cells: Sequence[Cell],
    engine: Engine,
    workers: int,
    retry_failed: bool,
    watcher: Watcher,
) -> Results:
    """Run every unfinished cell, ``workers`` at a time, or stop at a KeyboardInterrupt.

    The caller holds the lock of the study folder.
    """
    if workers < 1:
        raise UserError(f"--workers is {workers}, but it must be at least 1")
    out = Path(out)
    with hold_lock(out / QUEUE_LOCK):
        todo = deque(_cells_to_run(out, cells, retry_failed))
        running: dict[str, tuple[Cell, Job]] = {}
        losses: dict[str, int] = {}
        results = Results()
        watcher.begin(out, cells)
        try:
            while todo or running:
                while todo and len(running) < workers:
                    cell = todo.popleft()
                    (cell_folder(out, cell) / QUEUED).touch()
                    running[cell.key] = cell, engine.start(cell, cell_folder(out, cell))
                    watcher.queued(cell)
                time.sleep(POLL_SECONDS)
                for cell, job in list(running.values()):
                    if (ending := job.ended()) is not None:
                        del running[cell.key]
                        (cell_folder(out, cell) / QUEUED).unlink(missing_ok=True)
                        folder = cell_folder(out, cell)
                        if _must_restart(cell, folder, ending, losses, results, watcher):
                            todo.appendleft(cell)
                watcher.look([cell for cell, _ in running.values()])
        finally:
            for _, job in running.values():
                job.stop()
            for cell, job in running.values():
                job.wait()
                (cell_folder(out, cell) / QUEUED).unlink(missing_ok=True)
            watcher.end()
        return results


def _cells_to_run(out: Path, cells: Sequence[Cell], retry_failed: bool) -> list[Cell]:
    """Return the cells that are not finished, and remove the reasons of those to retry."""
    found = []
    for cell in cells:
        folder = cell_folder(out, cell)
        if is_finished(folder) or (failure(folder) and not retry_failed):
            continue
        remove_file(folder / FAILED)
        found.append(cell)
    return found


def _must_restart(
    cell: Cell,
    folder: Path,
    ending: Ending,
    losses: dict[str, int],
    results: Results,
    watcher: Watcher,
) -> bool:
    """Record how a worker ended, and return whether its cell must be started again."""
    if is_finished(folder):
        results.finished.append(cell.key)
        watcher.finished(cell)
        return False
    if ending.lost is not None:
        losses[cell.key] = losses.get(cell.key, 0) + 1
        if losses[cell.key] < MOST_LOSSES:
            watcher.note(f"{cell.label}: its worker ended by {ending.lost}; it is started again")
            return True
        fail(
            folder,
            f"its worker ended {MOST_LOSSES} times by {ending.lost}; memory may be short",
        )
    elif ending.failed is not None:
        fail(folder, ending.failed)
    results.failed.append(cell.key)
    watcher.failed(cell, failure(folder) or "unknown reason")
    return False
