"""Cells in processes of this machine, one thread each, some at a time.

The runner holds the study folder. It starts a worker per cell, watches it, and starts another when
one ends. A worker that was killed is started again, a cell that failed is left with its reason, and
the others go on. A runner that is killed takes its workers with it; the next one continues.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearsight.study.cell import EXIT_FAILED
from nearsight.study.folder import (
    FAILED,
    RUNNER_LOCK,
    WORKER_LOG,
    cell_folder,
    fail,
    failure,
    held,
    is_finished,
)
from nearsight.study.plan import THREADS, Cell
from nearsight.study.progress import Watcher

MOST_DEATHS = 3  # of one cell's worker by a signal, before the cell counts as failed
POLL_SECONDS = 0.2
STOPPED = frozenset({130, 143})  # exit codes of a worker that was asked to stop


@dataclass
class Worker:
    """A process at work on a cell."""

    cell: Cell
    folder: Path
    process: subprocess.Popen[bytes]


@dataclass
class Results:
    """Keys of the cells by what became of them in this call."""

    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def run_cells(
    out: Path,
    cells: Sequence[Cell],
    workers: int,
    data_root: Path | None,
    retry_failed: bool,
    watcher: Watcher,
) -> Results:
    """Run every cell that is not finished, ``workers`` at a time; KeyboardInterrupt stops it."""
    if workers < 1:
        raise ValueError(f"expected at least one worker, got {workers}")
    with held(Path(out) / RUNNER_LOCK):
        todo = deque(_unfinished(out, cells, retry_failed))
        deaths: dict[str, int] = {}
        running: list[Worker] = []
        results = Results()
        watcher.begin(out, cells)
        try:
            while todo or running:
                while todo and len(running) < workers:
                    running.append(_started(out, todo.popleft(), data_root))
                    watcher.started(running[-1].cell)
                time.sleep(POLL_SECONDS)
                for worker in [x for x in running if x.process.poll() is not None]:
                    running.remove(worker)
                    if _ended(worker, deaths, results, watcher):
                        todo.appendleft(worker.cell)
                watcher.look([worker.cell for worker in running])
        finally:
            _stop(running)
            watcher.end()
        return results


def _unfinished(out: Path, cells: Sequence[Cell], retry_failed: bool) -> list[Cell]:
    found = []
    for cell in cells:
        folder = cell_folder(out, cell)
        if is_finished(folder) or (failure(folder) and not retry_failed):
            continue
        (folder / FAILED).unlink(missing_ok=True)
        found.append(cell)
    return found


def _started(out: Path, cell: Cell, data_root: Path | None) -> Worker:
    folder = cell_folder(out, cell)
    command = [sys.executable, "-m", "nearsight.study.cell", str(folder)]
    if data_root is not None:
        command += ["--data-root", str(data_root)]
    threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with (folder / WORKER_LOG).open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | threads | {"TERM": "dumb"}, start_new_session=True,
        )  # fmt: skip
    return Worker(cell, folder, process)


def _ended(worker: Worker, deaths: dict[str, int], results: Results, watcher: Watcher) -> bool:
    """Note what became of a worker; True if its cell must be started again."""
    key, code = worker.cell.key, worker.process.returncode
    if code == 0 and is_finished(worker.folder):
        results.finished.append(key)
        watcher.finished(worker.cell)
        return False
    if code < 0 or code in STOPPED:  # killed, or asked to stop by someone else than the runner
        deaths[key] = deaths.get(key, 0) + 1
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if deaths[key] < MOST_DEATHS:
            watcher.note(f"{worker.cell.label}: its worker ended by {name}; it is started again")
            return True
        fail(worker.folder, f"its worker ended {MOST_DEATHS} times by {name}; out of memory?")
    elif code != EXIT_FAILED:
        fail(worker.folder, f"its worker ended with exit code {code}; {WORKER_LOG} may say why")
    results.failed.append(key)
    watcher.failed(worker.cell, failure(worker.folder) or "unknown reason")
    return False


def _stop(running: Sequence[Worker]) -> None:
    """Ask the workers to stop, and wait: each writes a checkpoint first."""
    for worker in running:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGTERM)
    for worker in running:
        worker.process.wait()
