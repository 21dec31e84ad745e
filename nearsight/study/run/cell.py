"""Run the stages of one cell in this process: ``python -m nearsight.study.run.cell FOLDER``.

A cell that is started again continues where it stopped. If a stage fails, the worker writes the
reason to failed.json and exits with EXIT_FAILED. A signal makes it stop with a checkpoint, and a
worker whose runner is gone stops itself.

A cell of several processes is a torchrun job: its worker is torchrun's agent and starts this module
once per rank. The ranks train together, and the worker runs the other stages alone.
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

from nearsight.core import UserError, hold_lock, remove_file
from nearsight.runs import Stage
from nearsight.study.design import (
    STAGES,
    THREADS,
    Cell,
    Software,
    named_files,
    named_hashes,
)
from nearsight.study.engines import EXIT_FAILED
from nearsight.study.folder import FAILED, WORKER_LOCK, fail, failure, is_finished, read_cell

MODULE = "nearsight.study.run.cell"
RANKS_LOCK = "ranks.lock"
WATCH_SECONDS, GRACE_SECONDS = 1.0, 30.0


def run_cell(folder: Path, data_root: Path | None = None) -> None:
    """Run the stages of a cell that have not ended.

    Raises:
        UserError: If the software or the weight files differ from those of the plan.
    """
    with hold_lock(folder / WORKER_LOCK):
        if is_finished(folder):
            return
        remove_file(folder / FAILED)
        cell = read_cell(folder)
        check_inputs(cell)
        for stage in cell.stage_objects:
            if stage.is_finished(folder):
                continue
            if stage.joint and cell.processes > 1:
                run_in_processes(stage, folder, cell.processes, data_root)
            else:
                run_stage(stage, cell, folder, data_root)


def check_inputs(cell: Cell) -> None:
    """Raise UserError unless software and weight files are those of the cell's key."""
    if differences := cell.software.differs(Software.here(cell.device)):
        raise UserError(
            f"the cell was planned with other software: {'; '.join(differences)}; run it with the "
            "planned software, or plan the study again"
        )
    if (found := named_hashes(cell.protocol)) != cell.weights:
        changed = ", ".join(str(path) for path in named_files(cell.protocol).values())
        raise UserError(
            f"{changed} has changed since the study was planned (its hash is now {found}); restore "
            "the file, or plan the study again"
        )


def run_stage(stage: Stage, cell: Cell, folder: Path, data_root: Path | None) -> None:
    """Run one stage of a cell in this process, alone or as a process of torchrun."""
    import torch

    torch.set_num_threads(THREADS)
    offered = {
        "protocol": cell.protocol, "seed": cell.seed, "device": cell.device, "data_root": data_root,
        "force": True,
    }  # fmt: skip
    stage.run(folder, stage.pick(offered) | dict(cell.stages[stage.name]))


def run_rank(stage: Stage, folder: Path, data_root: Path | None) -> None:
    """Run one stage of a cell as one of torchrun's processes.

    The first process waits until the ranks of a worker that was killed have ended; the others wait
    for the first.
    """
    first = os.environ["RANK"] == "0"
    with hold_lock(folder / RANKS_LOCK) if first else nullcontext():
        cell = read_cell(folder)
        check_inputs(cell)
        run_stage(stage, cell, folder, data_root)


def run_in_processes(
    stage: Stage, folder: Path, num_processes: int, data_root: Path | None
) -> None:
    """Run one stage of the cell in a folder with torchrun, whose agent is this process."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    from nearsight.core import Interrupted

    command = ["--standalone", f"--nproc-per-node={num_processes}", "-m", MODULE]
    given = [] if data_root is None else ["--data-root", str(data_root)]
    given += ["--parent", str(os.getpid())]
    try:
        torchrun([*command, str(folder), *given, "--rank-of", stage.name])
    except SignalException as stopped:
        raise Interrupted(stopped.sigval, folder) from stopped
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        if failure(folder) is None and (code < 0 or code > 128):
            raise Interrupted(-code if code < 0 else code - 128, folder) from error
        raise


def watch_parent(parent: int | None) -> None:
    """Make this process stop, with a checkpoint, when the process that started it has ended.

    Args:
        parent: The process id of that process, which it passes itself, because it may have ended
            before this process could ask for it.
    """
    expected = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == expected:
            time.sleep(WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Run the worker of one cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument(
        "--rank-of", metavar="STAGE", help="Run only this stage, as a process of torchrun."
    )
    parser.add_argument("--parent", type=int, help="Stop when the process with this id has ended.")
    given = parser.parse_args()
    watch_parent(given.parent)
    from nearsight.core import Interrupted

    try:
        if given.rank_of is None:
            run_cell(given.folder, given.data_root)
        else:
            run_rank(STAGES[given.rank_of], given.folder, given.data_root)
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
