"""One cell in this process: train, then measure. ``python -m nearsight.study.run.cell FOLDER``.

A cell that is started again goes on where it stopped. What it cannot do it writes into failed.json
and leaves with FAILED; a signal leaves a checkpoint. A worker whose runner is gone stops itself.

A cell of several processes is a torchrun job: its worker is torchrun's agent and starts this module
once per rank. The ranks train together; the worker measures alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from nearsight.core import UserError, hold_lock
from nearsight.runs import MEASURE, read_json
from nearsight.study.design import THREADS, Cell, named_files, named_hashes
from nearsight.study.engines import EXIT_FAILED
from nearsight.study.folder import CELL, FAILED, WORKER_LOCK, fail, failure, is_finished

MODULE = "nearsight.study.run.cell"
RANKS_LOCK = "ranks.lock"
WATCH_SECONDS, GRACE_SECONDS = 1.0, 30.0


def run_cell(folder: Path, data_root: Path | None = None) -> None:
    """Train and measure the cell of a folder; nothing to do if it is finished."""
    with hold_lock(folder / WORKER_LOCK):
        if is_finished(folder):
            return
        (folder / FAILED).unlink(missing_ok=True)
        cell = Cell.of(read_json(folder / CELL))
        from nearsight.measure.catalogue import DEFAULT_METRICS
        from nearsight.measure.folders import measure_run

        if cell.processes == 1:
            train_cell(cell, folder, data_root)
        else:
            train_in_processes(folder, cell.processes, data_root)
        if not (folder / MEASURE).is_file():
            metrics = tuple(dict.fromkeys([*DEFAULT_METRICS, *cell.metrics]))
            measure_run(folder, cell.measured_images, cell.device, data_root, metrics=metrics)


def train_cell(cell: Cell, folder: Path, data_root: Path | None) -> None:
    """Train in this process, alone or as one of torchrun's."""
    import torch

    from nearsight.train import train_run

    if torch.__version__ != cell.torch:
        raise UserError(f"expected torch {cell.torch} as planned, got {torch.__version__} here")
    if (found := named_hashes(cell.protocol)) != cell.weights:
        changed = ", ".join(str(path) for path in named_files(cell.protocol).values())
        raise UserError(f"expected the weights as planned, got others in {changed} ({found})")
    torch.set_num_threads(THREADS)
    train_run(cell.protocol, folder, seed=cell.seed, device=cell.device, data_root=data_root)


def train_rank(folder: Path, data_root: Path | None) -> None:
    """Train the cell as one of torchrun's processes.

    The first waits for ranks of a worker that was killed; the others wait for the first.
    """
    first = os.environ["RANK"] == "0"
    with hold_lock(folder / RANKS_LOCK) if first else nullcontext():
        train_cell(Cell.of(read_json(folder / CELL)), folder, data_root)


def train_in_processes(folder: Path, num_processes: int, data_root: Path | None) -> None:
    """Train the cell of a folder with torchrun in this process."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    from nearsight.core import Interrupted

    command = ["--standalone", f"--nproc-per-node={num_processes}", "-m", MODULE]
    root = [] if data_root is None else ["--data-root", str(data_root)]
    try:
        torchrun([*command, str(folder), *root, "--rank"])
    except SignalException as stopped:
        raise Interrupted(stopped.sigval, folder) from stopped
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        if failure(folder) is None and (code < 0 or code > 128):
            raise Interrupted(-code if code < 0 else code - 128, folder) from error
        raise


def watch_parent() -> None:
    """From now on this process stops, with a checkpoint, when the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--rank", action="store_true", help="one of torchrun's processes")
    given = parser.parse_args()
    watch_parent()
    from nearsight.core import Interrupted

    try:
        work = train_rank if given.rank else run_cell
        work(given.folder, given.data_root)
    except Interrupted as stopped:
        return stopped.exit_code
    except Exception as error:
        traceback.print_exc()
        if failure(given.folder) is None:  # the first process to fail has the cause
            fail(given.folder, f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
