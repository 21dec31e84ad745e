"""An attack: a name, a strategy of bad inputs, and what to do with one of them.

``attempt`` gets a case and an empty folder, and returns a verdict. It builds in the folder what the
case describes, and uses it as a user would. ``share`` is its part of the budget.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack.guard import guarded
from attack.verdicts import TRACEBACK, Verdict
from hypothesis.strategies import SearchStrategy

Attempt = Callable[[Any, Path], Verdict]


@dataclass(frozen=True)
class Attack:
    """A kind of bad input."""

    name: str
    cases: SearchStrategy[Any]
    attempt: Attempt
    share: float = 1.0  # of the budget, relative to the others
    slow: bool = False  # one attempt takes a second or so


@dataclass(frozen=True)
class Finding:
    """What one case did: its verdict, and what was written outside or run."""

    verdict: Verdict
    outside: tuple[str, ...] = ()
    started: tuple[str, ...] = ()


def attacked(attack: Attack, case: Any, room: Path) -> Finding:
    """Try a case in a new folder below ``room``, which is removed again."""
    folder = Path(tempfile.mkdtemp(dir=room))
    before = os.getcwd()
    home = os.environ.get("HOME")
    os.environ["HOME"] = str(folder)
    os.chdir(folder)
    try:
        with guarded(folder) as seen:
            try:
                verdict = attack.attempt(case, folder)
            except Exception as error:  # in the attempt itself, or of a kind not foreseen
                import traceback

                verdict = Verdict(TRACEBACK, "".join(traceback.format_exception(error)))
        return Finding(verdict, tuple(seen.outside), tuple(seen.started))
    finally:
        os.chdir(before)
        if home is not None:
            os.environ["HOME"] = home
        shutil.rmtree(folder, ignore_errors=True)
