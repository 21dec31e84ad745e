"""Reporters that watch a run, and the script that torchrun starts: recording.py JOBS.

JOBS is a JSON list of {protocol, out, parallel, data_root}; every job's step losses go to
OUT/losses.json.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from nearsight.train.reporter import Reporter


class Recorder(Reporter):
    """Keeps the notes and the loss of every step; may act after a given step."""

    def __init__(self, at_step: int = -1, act: Callable[[], None] = lambda: None) -> None:
        super().__init__(quiet=True)
        self.losses: list[float] = []
        self.notes: list[str] = []
        self.at_step, self.act = at_step, act

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, epoch: int, loss: float, batch_size: int) -> None:
        self.losses.append(loss)
        if len(self.losses) == self.at_step:
            self.act()


class PowerCut(BaseException):
    """Stands for a kill: nothing in the package catches it."""


def cut_power() -> None:
    raise PowerCut


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    from nearsight.measure.folders.run_folder import measure_run
    from nearsight.protocol.overrides import protocol_from
    from nearsight.train.loop import train_run

    torch.distributed.init_process_group("gloo")
    for job in json.loads(Path(sys.argv[1]).read_text()):
        recorder = Recorder()
        out = train_run(
            protocol_from(job["protocol"]),
            job["out"],
            device="cpu",
            parallel=job["parallel"],
            data_root=Path(job["data_root"]),
            reporter=recorder,
        )
        if os.environ.get("RANK", "0") == "0":
            (out / "losses.json").write_text(json.dumps(recorder.losses))
        torch.distributed.barrier()
        measure_run(out, data_root=Path(job["data_root"]))
    torch.distributed.barrier()
    os._exit(0)  # torch's threads may abort while an interpreter with a process group shuts down


if __name__ == "__main__":
    main()
