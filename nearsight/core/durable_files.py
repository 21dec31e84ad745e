"""Writing that survives a kill and a power cut, and names the file when the disk is full.

Also paths as users type them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearsight.core.errors import UserError


def expand_path(text: str | Path) -> Path:
    """Return the path that a user typed, with ``~`` expanded.

    Raises:
        UserError: There is no such user.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = str(text).partition("/")[0]
        raise UserError(f"{text}: there is no user {user.removeprefix('~')!r}") from None


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of the operating system inside the block names the file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: temporary file, sync, rename, sync of the folder."""
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
    """Add to the end of a file and wait until it is on the disk."""
    with naming(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
