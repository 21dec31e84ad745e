"""Run one call of compiled code on several threads.

The C functions take one job after another from a shared counter until none is left, and ctypes
releases the interpreter's lock while they run. Several threads can therefore make the same call at
the same time. The result is the same to the last bit, whichever thread does a job.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Helpers:
    """A pool of threads that help the calling thread; they are started when first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the pool: a forked process has none of its parent's threads."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0

    def call(self, function: Callable[[], int], num_threads: int) -> int:
        """Call a function on ``num_threads`` threads at once, which share its jobs.

        The calling thread is one of them. It does all the jobs if no other thread can be started.

        Returns:
            The largest of the error codes that the calls returned.
        """
        started = self._start(function, num_threads - 1) if num_threads > 1 else []
        try:
            code = function()
        finally:
            running = [future for future in started if not future.cancel()]
        return max([code, *(future.result() for future in running)])

    def _start(self, function: Callable[[], int], num: int) -> list[Future[int]]:
        """Call the function on ``num`` threads of the pool, or on as many as can be started."""
        with self._lock:
            if self._pool is None or self._size < num:  # an outgrown pool ends when it is idle
                self._pool, self._size = ThreadPoolExecutor(num, "nearsight"), num
            pool = self._pool
        started: list[Future[int]] = []
        # RuntimeError: the interpreter is shutting down, or the system gives no more threads.
        with contextlib.suppress(RuntimeError):
            while len(started) < num:
                started.append(pool.submit(function))
        return started


HELPERS = Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELPERS.forget)
