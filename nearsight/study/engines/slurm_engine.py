"""Run cells as Slurm jobs through submitit (engine ``slurm``; needs the extra ``slurm``).

A job starts the same process as the local engine. If a job runs out of time or is preempted, it
stops its worker, which writes a checkpoint, and submitit queues the job again. Jobs outlive a
runner that was killed; the next runner cancels the job of a cell before it submits another.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError

from nearsight.core import UserError
from nearsight.runs import SCHEMA_VERSION, read_json, write_json
from nearsight.study.design import Cell
from nearsight.study.engines.base import (
    Ending,
    EngineOptions,
    ending_of,
    exit_code_of,
    start_worker,
)

LOGS = "slurm"  # in the study folder: submitit's files of every job


JOB = "slurm.json"  # in a cell's folder, while its job is under way


ROOM = 1000  # submit all cells at once, because Slurm has its own queue


class Attended:
    """The function that a Slurm job runs: it runs the worker of a cell and can be queued again."""

    process: subprocess.Popen[bytes] | None = None

    def __call__(self, folder: Path, data_root: Path) -> int:
        """Run the worker of a cell, and return its exit code."""
        self.process = start_worker(folder, data_root)
        return exit_code_of(self.process)

    def checkpoint(self, folder: Path, data_root: Path) -> submitit.helpers.DelayedSubmission:
        """Queue the job again; submitit calls this in the job before Slurm ends it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        return submitit.helpers.DelayedSubmission(Attended(), folder, data_root)


@dataclass(frozen=True)
class SlurmJob:
    """A Slurm job that runs a cell."""

    job: submitit.Job[int]
    note: Path  # its slurm.json

    def ended(self) -> Ending | None:
        """Return how the job ended, or None while it runs."""
        if not self.job.done():
            return None
        self.note.unlink(missing_ok=True)
        error = self.job.exception()
        if error is None:
            return ending_of(self.job.result())
        if isinstance(error, FailedJobError):  # before the worker began
            return Ending(failed=str(error).strip().splitlines()[-1])
        return Ending(lost=f"Slurm's {self.job.state}")

    def stop(self) -> None:
        """Ask the job to stop."""
        self.job.cancel(check=False)

    def wait(self) -> None:
        """Wait until the job has ended."""
        self.job.wait()
        self.note.unlink(missing_ok=True)


class SlurmEngine:
    """Run cells as jobs of a Slurm cluster.

    With ``cluster="local"``, submitit runs the jobs on this machine instead.
    """

    def __init__(
        self,
        options: EngineOptions,
        out: Path,
        data_root: Path,
        cells: list[Cell],
        cluster: str = "slurm",
    ) -> None:
        self.data_root, self.cluster = data_root, cluster
        self.logs = Path(out).resolve() / LOGS
        try:
            self.executor = submitit.AutoExecutor(folder=self.logs, cluster=cluster)
        except RuntimeError as error:
            raise UserError(
                f"this machine cannot submit jobs to Slurm ({error}); run this on a login node"
            ) from error
        try:
            self.executor.update_parameters(**_parameters(options, cells[0]))
        except (NameError, AssertionError, TypeError) as error:
            raise UserError(
                f"submitit rejects a parameter of --slurm ({error}); correct it or leave it out"
            ) from error

    def room(self) -> int:
        """Return the number of cells to run at a time."""
        return ROOM

    def start(self, cell: Cell, folder: Path) -> SlurmJob:
        """Start a cell, and return its job."""
        folder = folder.resolve()
        note = folder / JOB
        if note.is_file() and self.cluster == "slurm":  # left by a runner that was killed
            submitit.SlurmJob(self.logs, read_json(note)["job"]).cancel(check=False)
        job = self.executor.submit(Attended(), folder, self.data_root)
        write_json(note, {"schema_version": SCHEMA_VERSION, "job": job.job_id})
        return SlurmJob(job, note)

    def close(self) -> None:
        """Do nothing: jobs belong to Slurm."""
        pass


def _parameters(options: EngineOptions, cell: Cell) -> dict[str, Any]:
    """Return the parameters that a cell needs; those of the user take precedence."""
    gpus = options.gpus(cell)
    if gpus != int(gpus):
        raise UserError(
            f"--gpus-per-cell is {gpus:g}, but Slurm reserves only whole GPUs; give a whole number"
        )
    needed = {"name": "nearsight", "cpus_per_task": cell.processes, "tasks_per_node": 1, "nodes": 1}
    return needed | ({"gpus_per_node": int(gpus)} if gpus else {}) | dict(options.slurm)
