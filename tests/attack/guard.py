"""Notice files written outside a folder, and programs or code that an input starts.

Python tells an audit hook of every file that is opened, renamed or removed, and of every program
that is started, whoever asks for it. A hook cannot be taken away, so there is one, which looks only
while a ``guarded`` block runs. Payloads of the generators call ``os.system`` or set ``CANARY`` in
``sys``; neither happens in nearsight itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CANARY = "_nearsight_attacked"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {  # events whose arguments are paths that change
    "os.remove": (0,), "os.rename": (0, 1), "os.mkdir": (0,), "os.rmdir": (0,), "os.link": (1,),
    "os.symlink": (1,), "os.truncate": (0,), "shutil.rmtree": (0,), "shutil.move": (0, 1),
}  # fmt: skip
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile")
PROGRAMS = ("git", "lscpu", "nproc")  # that provenance asks
SINKS = ("/dev/", "/proc/self/")


@dataclass
class Seen:
    """What happened inside a guarded block."""

    inside: Path
    outside: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)


_watched: list[Seen] = []  # the innermost block last


@contextmanager
def guarded(folder: Path) -> Iterator[Seen]:
    """Collect what is written outside ``folder`` and which code is run inside the block."""
    _install()
    seen = Seen(folder.resolve())
    _watched.append(seen)
    try:
        yield seen
    finally:
        _watched.remove(seen)
        if sys.__dict__.pop(CANARY, None):
            seen.started.append("code of an input")


def _look(event: str, given: tuple[Any, ...]) -> None:
    if not _watched:
        return
    seen = _watched[-1]
    if event == "open":
        path, _, flags = given
        if isinstance(path, str | bytes | os.PathLike) and (flags or 0) & WRITING:
            _written(seen, path)
    elif event in CHANGES:
        for place in CHANGES[event]:
            if isinstance(given[place], str | bytes | os.PathLike):
                _written(seen, given[place])
    elif event in STARTS:
        program = given[0] if event != "os.system" else "sh"
        name = os.path.basename(os.fsdecode(program or given[1][0]))
        if name not in PROGRAMS:
            seen.started.append(f"{event} {name}")


def _written(seen: Seen, path: Any) -> None:
    text = os.path.realpath(os.fsdecode(path))
    inside = text == str(seen.inside) or text.startswith(f"{seen.inside}{os.sep}")
    if not inside and not text.startswith(SINKS):
        seen.outside.append(text)


def _install(done: list[bool] = []) -> None:  # noqa: B006
    if not done:
        sys.addaudithook(_look)
        done.append(True)
