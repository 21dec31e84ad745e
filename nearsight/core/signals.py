"""Ctrl-C and SIGTERM ask a run to stop; it writes a checkpoint first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """The run stopped on a signal, with a checkpoint written."""

    def __init__(self, signum: int, path: object) -> None:
        super().__init__(f"stopped; the same command continues {path}")
        self.exit_code = 128 + (signum or signal.SIGTERM)


class StopRequest:
    """The signal that asked to stop, 0 while none did."""

    signum = 0


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Collect SIGINT and SIGTERM inside the block; a second Ctrl-C does not wait."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def on_signal(signum: int, frame: FrameType | None) -> None:
        if request.signum == signal.SIGINT == signum:
            raise KeyboardInterrupt
        request.signum = signum

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
