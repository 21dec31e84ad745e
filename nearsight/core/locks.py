"""File locks of the operating system, which end with the process that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nearsight.core.errors import UserError

ASKED = ".asked"  # what the lock of those who only ask is called after


@contextmanager
def hold_lock(path: Path, who: str | None = None, keep: bool = True) -> Iterator[None]:
    """Hold the lock of a file while the block runs.

    The operating system frees the lock when its process ends, however it ends.

    Args:
        path: The lock file, which is created if it is missing.
        who: What holds such a lock ("runner"), for the error if another one holds it now. None
            waits until the lock is free.
        keep: Whether the file stays behind.

    Raises:
        UserError: If another process holds the lock and ``who`` is given.
    """
    lock = _lock(path, wait=who is None)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"another {who} is at work in {path.parent}; wait for it or stop it"
        ) from None
    try:
        yield
    finally:
        if not keep:
            _remove(path)
        lock.release()


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file.

    Asking takes the lock for a moment. Those who ask take turns, so that none of them sees another
    one; a process that takes the lock must be one that waits for it.
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
    return FileLock(path, blocking=wait, fallback_to_soft=False)


def _remove(path: Path) -> None:
    """Remove a lock that is held; Windows does it when the lock is released."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return
