"""Run cells as tasks of a Ray cluster (engine ``ray``; needs the extra ``ray``).

A task reserves the CPUs and GPUs (or fractions) of its cell and starts the same process as the
local engine. Ray's own retries are off, because the scheduler starts lost cells again and counts
how often. When the runner is gone, Ray ends its tasks, and a worker whose task is gone stops with a
checkpoint.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import exceptions

from nearsight.core import UserError
from nearsight.study.design import Cell
from nearsight.study.engines.base import (
    Ending,
    EngineOptions,
    ending_of,
    exit_code_of,
    start_worker,
)

GRACE_SECONDS = 60.0  # to write a checkpoint, before a task that was asked to stop is killed


STORE_BYTES = 100 * 2**20  # of a cluster that we start; it holds only exit codes


def run_worker_task(folder: Path, data_root: Path) -> int:
    """Run a worker and return its exit code; Ray runs this function as its task."""
    return exit_code_of(start_worker(folder, data_root))


@dataclass(frozen=True)
class RayJob:
    """A Ray task that runs a cell."""

    task: Any

    def ended(self) -> Ending | None:
        """Return how the job ended, or None while it runs."""
        if not ray.wait([self.task], timeout=0)[0]:
            return None
        try:
            return ending_of(ray.get(self.task))
        except exceptions.TaskCancelledError:  # by someone else than the runner
            return Ending(lost="Ray's TaskCancelledError")
        except exceptions.RayTaskError as error:  # before the worker began
            return Ending(failed=f"{type(error.cause).__name__}: {error.cause}")
        except exceptions.RayError as error:  # its process or node is gone, or out of memory
            return Ending(lost=f"Ray's {type(error).__name__}")

    def stop(self) -> None:
        """Ask the job to stop."""
        ray.cancel(self.task, force=False)

    def wait(self) -> None:
        """Wait until the job has ended."""
        if not ray.wait([self.task], timeout=GRACE_SECONDS)[0]:
            ray.cancel(self.task, force=True)


class RayEngine:
    """Run cells on the Ray cluster at an address, or on one that we start on this machine."""

    def __init__(
        self, options: EngineOptions, data_root: Path, cells: list[Cell], workers: int | None
    ) -> None:
        self.options, self.data_root = options, data_root
        self.ours = not ray.is_initialized()  # a cluster that the caller has joined is kept
        if self.ours:
            _join(options, cells, workers)
        self.needs = {"CPU": float(cells[0].processes), "GPU": options.gpus(cells[0])}
        have = ray.cluster_resources()
        lacks = [name for name, need in self.needs.items() if have.get(name, 0.0) < need]
        if lacks:
            self.close()
            raise UserError(
                f"a cell needs {self.needs[lacks[0]]:g} {lacks[0]}, but the Ray cluster has "
                f"{have.get(lacks[0], 0.0):g}; join a larger cluster with --address"
            )

    def room(self) -> int:
        """Return how many cells the free CPUs and GPUs of the cluster allow now."""
        have = ray.cluster_resources()
        return min(int(have[name] // need) for name, need in self.needs.items() if need > 0)

    def start(self, cell: Cell, folder: Path) -> RayJob:
        """Start a cell, and return its job."""
        task = ray.remote(run_worker_task).options(
            num_cpus=cell.processes, num_gpus=self.options.gpus(cell), max_retries=0,
            name=cell.label,
        )  # fmt: skip
        return RayJob(task.remote(folder.resolve(), self.data_root))

    def close(self) -> None:
        """End the cluster if we started it."""
        if self.ours:
            ray.shutdown()


def _join(options: EngineOptions, cells: list[Cell], workers: int | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    if workers is not None:
        own["num_cpus"] = workers * cells[0].processes
    try:
        if options.address is None:
            ray.init(address="local", **quiet, **own)
        else:
            ray.init(address=options.address, **quiet)
    except (ConnectionError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"no Ray cluster could be joined at {options.address} ({first}); check --address"
        ) from error
