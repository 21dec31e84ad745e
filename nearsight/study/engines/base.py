"""Define engines, which start the worker of a cell somewhere and report how it ended.

Every engine runs a cell as a fresh process (``start_worker``) with one thread in the folder of the
cell, so that the bytes do not depend on the engine. run/scheduler.py loops over the cells.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from nearsight.core import UserError
from nearsight.study.design import THREADS, Cell
from nearsight.study.folder import CELL, WORKER_LOG

EngineName = Literal["local", "ray", "slurm"]


POLL_SECONDS = 0.2
EXIT_FAILED = 3


@dataclass(frozen=True)
class Ending:
    """How a worker ended: a lost worker is started again, a failed one is not."""

    lost: str | None = None  # what ended it, such as a signal or a lost node
    failed: str | None = None  # why it failed, if the worker could not record that itself


class Job(Protocol):
    """A running worker."""

    def ended(self) -> Ending | None:
        """Return how the job ended, or None while it runs."""

    def stop(self) -> None:
        """Ask the job to stop after it has written a checkpoint."""

    def wait(self) -> None:
        """Wait until the job has stopped."""


class Engine(Protocol):
    """A place where workers run."""

    def room(self) -> int:
        """Return the number of cells that run at a time by default."""

    def start(self, cell: Cell, folder: Path) -> Job:
        """Start a cell, and return its job."""

    def close(self) -> None:
        """Release the resources of the engine."""


@dataclass(frozen=True)
class EngineOptions:
    """The choice of an engine and its options."""

    name: EngineName = "local"
    address: str | None = None  # of a Ray cluster; None: start one on this machine for this study
    gpus_per_cell: float | None = None  # None: one per process on cuda, else none
    slurm: Mapping[str, str | int] = field(default_factory=dict)  # parameters of submitit

    def __post_init__(self) -> None:
        if self.address is not None and self.name != "ray":
            raise UserError(
                f"--address needs --engine ray, but the engine is {self.name}; leave out --address"
            )
        if self.gpus_per_cell is not None and self.name == "local":
            raise UserError(
                "--gpus-per-cell needs --engine ray or slurm, but the engine is local; leave it out"
            )
        if self.slurm and self.name != "slurm":
            raise UserError(
                f"--slurm needs --engine slurm, but the engine is {self.name}; leave out --slurm"
            )

    def gpus(self, cell: Cell) -> float:
        """Return the number of GPUs to reserve for a cell."""
        if self.gpus_per_cell is not None:
            return self.gpus_per_cell
        return float(cell.processes) if cell.device.startswith("cuda") else 0.0


def slurm_parameters(texts: Iterable[str]) -> dict[str, str | int]:
    """Parse parameters for submitit that are given as NAME=VALUE.

    >>> slurm_parameters(["timeout_min=240", "slurm_partition=gpu"])
    {'timeout_min': 240, 'slurm_partition': 'gpu'}
    """
    pairs = [text.partition("=") for text in texts]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise UserError(
                f"--slurm is {name + sign + value!r}, but it must have the form NAME=VALUE, "
                "for example timeout_min=240"
            )
    return {name: int(value) if value.isdecimal() else value for name, _, value in pairs}


def start_worker(folder: Path, data_root: Path) -> subprocess.Popen[bytes]:
    """Start the worker of a cell on this machine, as a process that ends when this one ends."""
    if not (folder / CELL).is_file():
        raise UserError(
            f"there is no {folder / CELL} on {os.uname().nodename}; put the study folder on a file "
            "system that all nodes share"
        )
    command = [sys.executable, "-m", "nearsight.study.run.cell", str(folder)]
    threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with (folder / WORKER_LOG).open("ab") as log:
        return subprocess.Popen(
            [*command, "--data-root", str(data_root), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | threads | {"TERM": "dumb"}, start_new_session=True,
        )  # fmt: skip


def exit_code_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a worker and return its exit code; an exception such as Ctrl-C stops the worker."""
    try:
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return process.returncode


def ending_of(code: int) -> Ending:
    """Return how a process ended, from its exit code; 128 + n means a signal, as in a shell.

    >>> ending_of(-9), ending_of(143)
    (Ending(lost='SIGKILL', failed=None), Ending(lost='SIGTERM', failed=None))
    """
    if code < 0 or code > 128:
        return Ending(lost=_signal_name(-code if code < 0 else code - 128))
    if code == EXIT_FAILED:
        return Ending()
    return Ending(failed=f"its worker ended with exit code {code}; {WORKER_LOG} may say why")


def _signal_name(number: int) -> str:
    """Return the name of a signal, or its number, because real-time signals have no names.

    >>> _signal_name(9), _signal_name(35)
    ('SIGKILL', 'signal 35')
    """
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")
