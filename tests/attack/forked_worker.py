"""Start the worker of a study's cell by a fork, so that it need not load torch anew.

It is the same program as ``python -m nearsight.study.run.cell``, in a session of its own, and ends
when its runner ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from nearsight.study.folder import WORKER_LOG


@dataclass
class ForkedWorker:
    """What the engine uses of a ``subprocess.Popen``."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            process, status = os.waitpid(self.pid, os.WNOHANG)
            if process:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to stop."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended."""
        while self.poll() is None:
            time.sleep(0.01)
        return self.returncode or 0


def start_forked_worker(folder: Path, data_root: Path) -> ForkedWorker:
    """Start the worker of a cell."""
    runner = os.getpid()
    child = os.fork()
    if child:
        return ForkedWorker(child)
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        log = os.open(folder / WORKER_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        from nearsight.study.run.cell import main

        sys.argv = ["cell", str(folder), "--data-root", str(data_root), "--parent", str(runner)]
        code = main()
    finally:
        os._exit(code)
