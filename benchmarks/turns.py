"""Time functions in turns: they run one after another, and the best time of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable

MIN_TURNS, MAX_TURNS = 3, 80


def best_times(
    timed: dict[str, Callable[[], None]], clock: Callable[[], float], seconds: float
) -> dict[str, float]:
    """Return the seconds of the fastest turn of each, until the time or MAX_TURNS is over."""
    best = dict.fromkeys(timed, float("inf"))
    for run in timed.values():
        run()
    started = time.monotonic()
    for turn in range(MAX_TURNS):
        if turn >= MIN_TURNS and time.monotonic() - started > seconds:
            break
        for name, run in timed.items():
            before = clock()
            run()
            best[name] = min(best[name], clock() - before)
    return best
