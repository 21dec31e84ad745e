"""Run one call of compiled code on several threads.

The C functions take one job after another from a shared counter until none is left, and ctypes
releases the interpreter's lock while they run. Several threads can therefore make the same call at
the same time. Which thread does which job changes no bit of the result.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Helpers:
    """Threads beside the calling one, started when they are first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again without threads, because a forked process has none of its parent's."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0

    def call(self, function: Callable[[], int], num_threads: int) -> int:
        """Call a function on this many threads at once; the calls share their jobs.

        The calling thread is one of them, and does all the jobs if no other thread can be started.

        Returns:
            The largest of the codes that the calls returned.
        """
        started = self._start(function, num_threads - 1) if num_threads > 1 else []
        try:
            code = function()
        finally:
            running = [future for future in started if not future.cancel()]
        return max([code, *(future.result() for future in running)])

    def _start(self, function: Callable[[], int], num: int) -> list[Future[int]]:
        with self._lock:
            if self._pool is None or self._size < num:  # a smaller pool ends when it is idle
                self._pool, self._size = ThreadPoolExecutor(num, "nearsight"), num
            pool = self._pool
        started: list[Future[int]] = []
        with contextlib.suppress(
            RuntimeError
        ):  # the interpreter ends, or there are no more threads
            while len(started) < num:
                started.append(pool.submit(function))
        return started


HELPERS = Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELPERS.forget)
