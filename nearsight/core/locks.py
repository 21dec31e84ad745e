"""Lock files through the operating system, which frees a lock when its process ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nearsight.core.errors import UserError

ASKED = ".asked"  # suffix of a second lock file, with which callers of is_locked take turns


@contextmanager
def hold_lock(path: Path, who: str | None = None, keep: bool = True) -> Iterator[None]:
    """Hold the lock of a file while the block runs.

    The operating system frees the lock when the process ends, even if the process is killed.

    Args:
        path: The lock file, which is created if it is missing.
        who: What this process does ("runner"). If another process holds the lock, the error
            names it. With None, the function waits until the lock is free.
        keep: Whether the lock file stays in the folder after the block.

    Raises:
        UserError: If another process holds the lock and ``who`` is given.
    """
    lock = _lock(path, wait=who is None)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"another {who} is running in {path.parent}; wait until it has finished, or stop it"
        ) from None
    try:
        yield
    finally:
        if not keep:
            _remove(path)
        lock.release()


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file.

    The function finds this out by taking the lock for a moment. Its callers take turns through a
    second lock, so that they do not mistake each other for the owner. A process that takes the lock
    with ``hold_lock`` while others call this function should wait for it (``who=None``), or it may
    be told that the lock is taken when only this function has it.
    """
    if not path.is_file():
        return False
    with _lock(path.with_name(path.name + ASKED), wait=True):
        try:
            with _lock(path, wait=False):
                return False
        except Timeout:
            return True


def _lock(path: Path, wait: bool) -> FileLock:
    """Return a lock of the operating system; ``filelock`` could otherwise use a mere file."""
    return FileLock(path, blocking=wait, fallback_to_soft=False)


def _remove(path: Path) -> None:
    """Remove the file of a lock that this process holds."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:  # Windows keeps open files; there, releasing the lock removes it
        return
