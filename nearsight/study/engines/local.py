"""Run cells in processes of this machine, one thread each (engine ``local``)."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearsight.study.design import Cell
from nearsight.study.engines.base import Ending, ending_of, start_worker

ROOM = 2


@dataclass(frozen=True)
class LocalJob:
    """A process that runs a cell."""

    process: subprocess.Popen[bytes]

    def ended(self) -> Ending | None:
        """Return how the job ended, or None while it runs."""
        code = self.process.poll()
        return None if code is None else ending_of(code)

    def stop(self) -> None:
        """Ask the job to stop."""
        if self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> None:
        """Wait until the job has ended."""
        self.process.wait()


@dataclass(frozen=True)
class LocalEngine:
    """Run cells as processes of this machine."""

    data_root: Path

    def room(self) -> int:
        """Return the number of cells to run at a time."""
        return ROOM

    def start(self, cell: Cell, folder: Path) -> LocalJob:
        """Start a cell, and return its job."""
        return LocalJob(start_worker(folder, self.data_root))

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""
        pass
