"""Run a command in a fork of this process, and stop it at a chosen system call that writes.

The parent has loaded torch and nearsight, so a run costs what the command itself does. With strace,
every system call of every thread and child counts. Without it, the child counts the events that
Python tells an audit hook, ``os.write`` and ``os.fsync``, which leaves out calls of compiled code.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

WRITES = (
    "write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "sync", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "ftruncate", "truncate", "link",
    "linkat", "symlink", "symlinkat", "sendfile", "copy_file_range", "utimensat", "fchmod", "chmod",
    "openat",
)  # fmt: skip
FULL = (
    "write",
    "pwrite64",
    "writev",
    "sendfile",
    "copy_file_range",
    "mkdir",
)  # calls that need room
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime")
HOOK = "event"  # the name of a point that the audit hook counts
SECONDS = 1200.0  # for one command, on a very busy machine
Kind = Literal["kill", "full", "interrupt"]
SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}
STOPPED = {"kill": "+++ killed by SIGKILL", "interrupt": "--- SIGINT"}  # in what strace says
HIT = "hit"  # an empty file that the audit hook makes when it stops the command


@dataclass(frozen=True)
class Point:
    """The n-th call of a name in a process, counted from 1."""

    call: str
    number: int


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code (negative: a signal), what it said, and its calls.

    ``hit`` is whether it reached the point at which it, or a process of its own, was to be stopped.
    """

    code: int
    said: str
    points: tuple[Point, ...] = ()
    hit: bool = False


def has_strace() -> bool:
    """Return whether strace is there and may attach to a process."""
    path = shutil.which("strace")
    if path is None:
        return False
    with subprocess.Popen(["sleep", "30"]) as other:
        words = [path, "-qq", "-o", os.devnull, "-p", str(other.pid)]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as tracer:
            attached = _is_attached(tracer, other.pid)
            other.kill()
    return attached


def _is_attached(tracer: Any, process: int, seconds: float = 180.0) -> bool:
    """Wait until a tracer has attached to a process; False if it ended or took too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and tracer.poll() is None:
        status = Path(f"/proc/{process}/status").read_text()
        if re.search(r"^TracerPid:\s*[1-9]", status, re.MULTILINE):
            return True
        time.sleep(0.002)
    return False


def run(
    command: Callable[[], int],
    place: Path,
    kind: Kind | None = None,
    at: Point | None = None,
    traced: bool = False,
) -> Ending:
    """Run a command in a fork, and stop it at a point.

    Args:
        command: What to run; it returns the exit code.
        place: The folder whose files count; calls elsewhere are no points.
        kind: What happens at the point. None: nothing.
        at: The point.
        traced: Whether to use strace.
    """
    said = place.parent / "said.txt"
    log = place.parent / "strace.txt"
    (place.parent / HIT).unlink(missing_ok=True)
    go_reading, go_writing = os.pipe()
    child = os.fork()
    if child == 0:
        _child(command, place, said, go_reading, None if traced else (kind, at))
    os.close(go_reading)
    tracer = _tracer(child, log, kind, at) if traced else None
    os.write(go_writing, b"x")
    os.close(go_writing)
    code = _ended(child)
    if tracer is not None:
        tracer.wait(timeout=180)
    points: tuple[Point, ...] = ()
    if kind is None:
        points = _traced_points(log, place, child) if traced else _counted_points(place)
    hit = (place.parent / HIT).exists()
    if traced and kind is not None:
        hit = STOPPED[kind] in log.read_text(errors="replace")
    return Ending(code, said.read_text(errors="replace"), points, hit)


def _ended(child: int) -> int:
    """Wait until a child has ended, and return its exit code."""
    watched = os.pidfd_open(child)
    in_time = select.select([watched], [], [], SECONDS)[0]
    os.close(watched)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        raise TimeoutError(f"a command took longer than {SECONDS} s")
    return os.waitstatus_to_exitcode(status)


def _child(
    command: Callable[[], int],
    place: Path,
    said: Path,
    go: int,
    fault: tuple[Kind | None, Point | None] | None,
) -> None:
    """Run the command and never return."""
    code = 70
    try:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.read(go, 1)
        if fault is not None:
            _count(place, *fault)
        code = command()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(code)


def _tracer(child: int, log: Path, kind: Kind | None, at: Point | None) -> Any:
    """Attach strace to a child that waits, and return when it is attached."""
    words = ["strace", "-f", "-qq", "-y", "-o", str(log), "-p", str(child)]
    if kind is None or at is None:
        words += ["-e", f"trace={','.join(WRITES)}"]
    else:
        what = f"signal={SIGNALS[kind].name}:when={at.number}"
        words += ["-e", f"trace={at.call}", "-e", f"inject={at.call}:{what}"]
    tracer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not _is_attached(tracer, child):
        raise OSError("strace could not attach to a child")
    return tracer


CREATING = re.compile(r"O_CREAT|O_TRUNC")
UNUSED = re.compile(r'AT_FDCWD<[^>]*>(?=, "/)')  # the folder beside a path that is absolute
LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)$")


def _traced_points(log: Path, place: Path, child: int) -> tuple[Point, ...]:
    """Return the calls of a trace that write below a folder; strace counts by thread and name."""
    counts: dict[tuple[str, str], int] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        process, call, given = match.groups()
        number = counts[process, call] = counts.get((process, call), 0) + 1
        given = UNUSED.sub("", given)
        if str(place) not in given or (call == "openat" and not CREATING.search(given)):
            continue
        found.append(Point(call, number))
    return tuple(dict.fromkeys(found))


def _count(place: Path, kind: Kind | None, at: Point | None) -> None:
    """Count the writing calls of this process from here on; stop it at the point."""
    number = 0
    inside = str(place)
    tally = place.parent / "count.txt"

    def one(path: Any) -> None:
        nonlocal number
        try:
            text = (
                os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fsdecode(path)
            )
        except (OSError, TypeError):
            return
        if not os.path.abspath(text).startswith(inside):
            return
        number += 1
        if at is None:
            with_number = str(number).encode()
            file = real_open(tally, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            real_write(file, with_number)
            real_close(file)
            return
        if number >= at.number:
            real_close(real_open(place.parent / HIT, os.O_WRONLY | os.O_CREAT))
        if kind == "full":
            if number >= at.number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif number == at.number:
            os.kill(os.getpid(), SIGNALS[str(kind)])

    def look(event: str, given: tuple[Any, ...]) -> None:
        if event not in EVENTS or given[0] == tally:
            return
        if event == "open" and not (given[2] or 0) & (os.O_CREAT | os.O_TRUNC | os.O_WRONLY):
            return
        if kind == "full" and event in ("os.remove", "os.rmdir", "os.rename"):
            return  # they need no room
        one(given[0])

    real_write, real_sync, real_open, real_close = os.write, os.fsync, os.open, os.close

    def write(file: int, content: bytes) -> int:
        one(file)
        return real_write(file, content)

    def sync(file: int) -> None:
        one(file)
        real_sync(file)

    os.write, os.fsync = write, sync
    sys.addaudithook(look)


def _counted_points(place: Path) -> tuple[Point, ...]:
    tally = place.parent / "count.txt"
    number = int(tally.read_text()) if tally.is_file() else 0
    return tuple(Point(HOOK, n) for n in range(1, number + 1))
