"""Find out whether several threads are slower than one because the machine is busy."""

from __future__ import annotations

import os
import time

MUCH_SLOWER = 1.5  # times
SIDE = 384  # of the matrices that are multiplied to find out
REPEATS = 12


def slow_threads() -> str:
    """Return a warning where torch's threads are much slower than one; empty otherwise.

    Only a machine with more work than processors is tried: there, threads that wait for each other
    can be 10 to 30 times slower than one alone. Trying takes some hundredths of a second.
    """
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= processors:
        return ""
    import torch

    threads = torch.get_num_threads()
    if threads == 1:
        return ""
    together = _seconds()
    torch.set_num_threads(1)
    try:
        alone = _seconds()
    finally:
        torch.set_num_threads(threads)
    return warning_text(load, processors, threads, together / alone)


def warning_text(load: float, processors: int, threads: int, ratio: float) -> str:
    """Say that one thread is faster, if it is by much.

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
    import torch

    matrix = torch.ones(SIDE, SIDE)
    matrix @ matrix  # the first use starts the threads
    began = time.perf_counter()
    for _ in range(REPEATS):
        matrix @ matrix
    return time.perf_counter() - began
