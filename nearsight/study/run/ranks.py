"""A cell that is a torchrun job: its worker is torchrun's agent, and starts a process per rank.

``python -m nearsight.study.run.ranks FOLDER`` is one of them. Ranks train together; the worker
measures alone. A rank whose agent is gone stops itself, so that a killed worker leaves nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

from nearsight.core.files import held
from nearsight.runs.folder import read_json
from nearsight.study.design.plan import Cell
from nearsight.study.run.folder import CELL, fail, failure

RANKS_LOCK = "ranks.lock"


def train_in_processes(folder: Path, num_processes: int, data_root: Path | None) -> None:
    """Train the cell of a folder with torchrun in this process."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    from nearsight.core.signals import Interrupted

    command = [
        "--standalone",
        f"--nproc-per-node={num_processes}",
        "-m",
        "nearsight.study.run.ranks",
    ]
    root = [] if data_root is None else ["--data-root", str(data_root)]
    try:
        torchrun([*command, str(folder), *root])
    except SignalException as stopped:
        raise Interrupted(stopped.sigval, folder) from stopped
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        if failure(folder) is None and (code < 0 or code > 128):
            raise Interrupted(-code if code < 0 else code - 128, folder) from error
        raise


def main() -> int:
    from nearsight.core.signals import Interrupted
    from nearsight.study.run.cell import EXIT_FAILED, train_cell, watch_parent

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args()
    watch_parent()
    first = os.environ["RANK"] == "0"
    try:  # the first waits for ranks of a worker that was killed; the others wait for the first
        with held(given.folder / RANKS_LOCK, "worker", wait=True) if first else nullcontext():
            train_cell(Cell.of(read_json(given.folder / CELL)), given.folder, given.data_root)
    except Interrupted as stopped:
        return stopped.exit_code
    except Exception as error:
        traceback.print_exc()
        if failure(given.folder) is None:  # the first to fail has the cause
            fail(given.folder, f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
