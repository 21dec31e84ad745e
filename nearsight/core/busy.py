"""Detect a busy machine on which several threads are slower than one."""

from __future__ import annotations

import os
import time

MUCH_SLOWER = 1.5  # the slowdown from which a warning is worth printing
SIDE = 384  # rows and columns of the matrices that the test multiplies
REPEATS = 12  # products per turn
TURNS = 5  # how often several threads and one thread are timed, alternately


def slow_threads() -> str:
    """Return a warning if torch's threads are much slower than a single thread, else ""."""
    processors, load = os.cpu_count() or 1, _load()
    slowdown = thread_slowdown()
    if slowdown == 0:
        return ""
    import torch

    return warning_text(load, processors, torch.get_num_threads(), slowdown)


def thread_slowdown() -> float:
    """Return the time that torch's threads take, divided by that of a single thread.

    On a busy machine, threads that wait for each other can be 10 to 30 times slower than one
    thread. The test multiplies small matrices for a few tenths of a second. Several threads and one
    thread are timed alternately, because more processors may be free at one moment than at another.

    Returns:
        The ratio, or 0 if it was not measured, because the load average does not exceed the number
            of processors or torch uses only one thread.
    """
    if _load() <= (os.cpu_count() or 1):
        return 0.0
    import torch

    threads = torch.get_num_threads()
    if threads == 1:
        return 0.0
    together = alone = 0.0
    try:
        for _ in range(TURNS):
            torch.set_num_threads(threads)
            together += _seconds()
            torch.set_num_threads(1)
            alone += _seconds()
    finally:
        torch.set_num_threads(threads)
    return together / alone


def _load() -> float:
    """Return the load average of the last minute, or 0 where the system has none (Windows)."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def warning_text(load: float, processors: int, threads: int, ratio: float) -> str:
    """Return the warning for a measured slowdown, or an empty string if the slowdown is small.

    Args:
        load: The load average of the machine.
        processors: The number of processors.
        threads: The number of threads that torch uses.
        ratio: The time with that many threads, divided by the time with one thread.

    >>> warning_text(6.5, 2, 2, 12.0)
    'this machine is busy (load 6.5 on 2 processors): 2 threads are 12 times slower than one; \
try --threads 1'
    >>> warning_text(6.5, 2, 2, 1.1)
    ''
    """
    if ratio < MUCH_SLOWER:
        return ""
    return (
        f"this machine is busy (load {load:.1f} on {processors} processors): {threads} threads are "
        f"{ratio:.3g} times slower than one; try --threads 1"
    )


def _seconds() -> float:
    """Return the time that REPEATS products of two matrices take."""
    import torch

    matrix = torch.ones(SIDE, SIDE)
    matrix @ matrix  # the first use starts the threads
    began = time.perf_counter()
    for _ in range(REPEATS):
        matrix @ matrix
    return time.perf_counter() - began
