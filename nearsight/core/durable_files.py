"""Write files that survive a kill and a power cut, and expand the paths that users type.

If a write fails, for example because the disk is full, the error names the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearsight.core.errors import UserError


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
            f"There is no user {name!r} on this machine, so the path {text} cannot be expanded. "
            "Check the name after ~."
        ) from None


def sync(path: Path) -> None:
    """Wait until the contents of a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of a file to every ``OSError`` that is raised inside the block."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.

    The content goes into a temporary file, which is synced and renamed; then the folder is synced.
    A reader therefore sees either the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path), temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def append_bytes(path: Path, content: bytes) -> None:
    """Append to a file, and wait until the new content is on the disk."""
    with naming(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
