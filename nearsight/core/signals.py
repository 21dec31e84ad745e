"""Let Ctrl-C, SIGTERM and SIGHUP ask a run to stop, so that it can write a checkpoint first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """Raised when a run stopped because of a signal, after it had written a checkpoint."""

    def __init__(self, signum: int, path: object) -> None:
        super().__init__(f"stopped; the same command continues {path}")
        self.exit_code = 128 + (signum or signal.SIGTERM)


class StopRequest:
    """The number of the signal that asked to stop, or 0 if none has arrived."""

    signum = 0


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Record SIGINT, SIGTERM and SIGHUP inside the block instead of ending the process.

    The block checks ``signum`` of the yielded object wherever it can stop cleanly. A second Ctrl-C
    raises ``KeyboardInterrupt`` at once. Python delivers signals to the main thread only, so in
    other threads nothing is recorded.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def on_signal(signum: int, frame: FrameType | None) -> None:
        if request.signum == signal.SIGINT == signum:
            raise KeyboardInterrupt
        request.signum = signum

    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(hangup)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
