"""Write files that survive a kill and a power cut, and expand the paths that users type.

If a write fails, for example because the disk is full, the error names the file.
"""

from __future__ import annotations

import glob
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearsight.core.errors import UserError

DAY = 86_400.0  # seconds


def expand_path(text: str | Path) -> Path:
    """Expand ``~`` in a path that a user typed.

    >>> expand_path("runs/modern-0").as_posix()
    'runs/modern-0'

    Raises:
        UserError: If the path begins with ``~NAME`` and there is no such user.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = str(text).partition("/")[0]
        name = user.removeprefix("~")
        raise UserError(
            f"there is no user {name!r} on this machine, so the path {text} cannot be expanded; "
            "check the name after ~"
        ) from None


def sync(path: Path) -> None:
    """Wait until the contents of a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UserError: If the file is not text in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is damaged or not a text file: byte {error.start:,} is not UTF-8; "
            "restore the file or download it again"
        ) from None


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Add the name of a file to every ``OSError`` that is raised inside the block."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.

    The content goes into a temporary file, which is synced and renamed; then the folder is synced.
    A reader therefore sees either the old file or the new one. Temporary files that killed
    processes left behind while they wrote the same file are removed.

    Raises:
        UserError: If the path has no name, as "." and "/" have none.
    """
    if not path.name:
        raise UserError(f"{path} is a folder. Give the name of a file to write.")
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.tmp")
    try:
        with name_in_errors(path), temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file if it exists, and the temporary files that killed writers of it left behind."""
    path.unlink(missing_ok=True)
    _remove_leftovers(path)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of a path if the process that wrote them no longer runs.

    Only processes of this machine can be looked up. A temporary file of another machine, on a
    shared disk, is removed when it is a day old.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        node, _, process = (
            left.name.removeprefix(f".{path.name}.").removesuffix(".tmp").rpartition(".")
        )
        try:
            here = node == platform.node() and process.isdecimal()
            at_work = (
                _is_running(int(process)) if here else time.time() - left.stat().st_mtime < DAY
            )
        except FileNotFoundError:  # another process removed it meanwhile
            continue
        if not at_work:
            left.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Return whether this machine has a process with this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, but belongs to another user
        return True
    return True


def append_bytes(path: Path, content: bytes) -> None:
    """Append to a file, and wait until the new content is on the disk."""
    with name_in_errors(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
