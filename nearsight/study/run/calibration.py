"""Estimate how long a study takes on this machine, from a few training steps.

One process with one thread is timed for a few steps and a part of the validation set. The estimate
assumes that the processes of a cell share its work evenly and exchange messages in no time, and
that more processes than cores make nothing faster. The time for measuring is not included.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from nearsight.core import World
from nearsight.evaluate import BATCH, model_scores
from nearsight.protocol import Protocol
from nearsight.study.design import THREADS
from nearsight.train import Stepper, prepare

SECONDS = 2.0  # time for steps, after the first one


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def study_seconds(work: Sequence[float], workers: int, processes: int, cores: int) -> float:
    """Return the time until the last cell ends.

    Args:
        work: The seconds that each cell takes alone in one process.
        workers: The number of cells that run at a time.
        processes: The number of processes of a cell.
        cores: The number of cores of this machine.

    In the first example, the third of three cells waits for one of the first two. The others show
    that two processes per cell help only while fewer cells than cores run.

    >>> study_seconds([10, 10, 10], workers=2, processes=1, cores=2)
    20.0
    >>> study_seconds([10, 10], workers=1, processes=2, cores=2)
    10.0
    >>> study_seconds([10, 10], workers=2, processes=2, cores=2)
    10.0
    """
    at_once = min(workers, len(work))
    if at_once == 0:
        return 0.0
    speed = min(processes, cores / at_once)  # of a cell, relative to one process on a free core
    ends = [0.0] * at_once
    for seconds in work:
        heapq.heapreplace(ends, ends[0] + seconds / speed)
    return max(ends)


def assumptions(workers: int, processes: int, cores: int) -> str:
    """Describe what the estimated time is based on."""
    said = "estimated from a few steps of each condition in one process; without measuring"
    if processes > 1:
        said += f"; assuming that {processes} processes per cell share its work evenly"
    if (wanted := workers * processes) > cores:
        said += (
            f"; assuming that {wanted} processes on {cores} core{'s' * (cores > 1)} are no faster "
            f"than {cores}"
        )
    return said


def epoch_seconds(protocol: Protocol, device: str, data_root: Path | None = None) -> float:
    """Return the seconds of one epoch (training and validation) with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return _time_epoch(protocol, World(torch.device(device)), data_root)
    finally:
        torch.set_num_threads(before)


def _time_epoch(protocol: Protocol, world: World, data_root: Path | None) -> float:
    parts = prepare(protocol, 0, world, data_root, compiled=False, parallel="ddp")
    stepper = Stepper(parts, Path())
    began, images = time.perf_counter(), 0
    for number, batch in enumerate(parts.batches(epoch=1)):
        stepper.take(batch)
        if number == 0:  # memory and caches are warm from here on
            began, images = time.perf_counter(), 0
            continue
        images += batch.global_size
        if time.perf_counter() - began > SECONDS:
            break
    per_image = (time.perf_counter() - began) / max(1, images)
    given, train = parts.setting, parts.setting.train
    some = given.validation[:BATCH]
    began = time.perf_counter()
    model_scores(
        parts.objective.kept, train.images, train.labels, some, given.transform, world,
        given.autocast,
    )  # fmt: skip
    validating = (time.perf_counter() - began) / len(some)
    return per_image * len(train.indices) + validating * parts.objective.num_scored
