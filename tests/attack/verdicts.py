"""What became of one bad input: accepted, refused in a sentence, a traceback, or damage unnoticed.

The command line decides what a sentence is: an error is refused if ``nearsight`` would print it on
one line and exit, and is a traceback if it would show one.
"""

from __future__ import annotations

import io
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

from nearsight.cli.app import _exit_code

LONGEST = 2000  # characters of an error; a longer one hides what it says
ACCEPTED, REFUSED, TRACEBACK, SILENT = "accepted", "refused", "traceback", "silent"
HANG = "hang"
SECONDS = 20.0  # of processor time that an input may take


@dataclass(frozen=True)
class Verdict:
    """What became of an input, and how to tell it to someone who mends it."""

    what: str
    text: str = ""
    value: Any = None


class Hang(BaseException):
    """An input took longer than ``SECONDS``; no ``except Exception`` may swallow this."""


def verdict_of(call: Callable[[], Any]) -> Verdict:
    """Call a function with a bad input inside, and return what became of it."""
    try:
        return Verdict(ACCEPTED, value=call())
    except Hang:
        return Verdict(HANG, "it took too long")
    except SystemExit as ended:
        return Verdict(REFUSED if ended.code else ACCEPTED, f"exit code {ended.code}")
    except Exception as error:
        return _told(error)


def unnoticed(text: str) -> Verdict:
    """Return the verdict of damaged input that was taken without a word."""
    return Verdict(SILENT, text)


def _told(error: Exception) -> Verdict:
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            code = _exit_code(error)
    except Exception:
        return Verdict(TRACEBACK, "".join(traceback.format_exception(error)))
    sentence = printed.getvalue().strip()
    if not code or not sentence or len(sentence) > LONGEST:
        problem = f"{len(sentence)} characters, exit code {code}: {sentence[:300]}"
        return Verdict(TRACEBACK, f"no sentence but {problem}")
    return Verdict(REFUSED, sentence)


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raise ``Hang`` if the block takes more processor time than this (main thread only)."""

    def stop(signum: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
