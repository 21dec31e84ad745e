"""One cell in this process: train, then measure. ``python -m nearsight.study.run.cell FOLDER``.

A cell that is started again goes on where it stopped. What it cannot do it writes into failed.json
and leaves with FAILED; a signal leaves a checkpoint. A worker whose runner is gone stops itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from nearsight.core.files import held
from nearsight.runs.folder import MEASURE, read_json
from nearsight.study.design.named_files import named_files, named_hashes
from nearsight.study.design.plan import THREADS, Cell
from nearsight.study.run.folder import CELL, FAILED, WORKER_LOCK, fail, failure, is_finished
from nearsight.study.run.ranks import train_in_processes

EXIT_FAILED = 3
WATCH_SECONDS, GRACE_SECONDS = 1.0, 30.0


def run_cell(folder: Path, data_root: Path | None = None) -> None:
    """Train and measure the cell of a folder; nothing to do if it is finished."""
    with held(folder / WORKER_LOCK, "worker", wait=True):
        if is_finished(folder):
            return
        (folder / FAILED).unlink(missing_ok=True)
        cell = Cell.of(read_json(folder / CELL))
        from nearsight.measure.folders.run_folder import measure_run
        from nearsight.measure.metrics.table import DEFAULT_METRICS

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

    from nearsight.train.loop import train_run

    if torch.__version__ != cell.torch:
        raise ValueError(f"expected torch {cell.torch} as planned, got {torch.__version__} here")
    if (found := named_hashes(cell.protocol)) != cell.weights:
        changed = ", ".join(str(path) for path in named_files(cell.protocol).values())
        raise ValueError(f"expected the weights as planned, got others in {changed} ({found})")
    torch.set_num_threads(THREADS)
    train_run(cell.protocol, folder, seed=cell.seed, device=cell.device, data_root=data_root)


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
    given = parser.parse_args()
    watch_parent()
    from nearsight.core.signals import Interrupted

    try:
        run_cell(given.folder, given.data_root)
    except Interrupted as stopped:
        return stopped.exit_code
    except Exception as error:
        traceback.print_exc()
        if failure(given.folder) is None:  # a rank has not written it
            fail(given.folder, f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
