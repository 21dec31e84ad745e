"""Write several files of a folder as one unit, so that a reader sees all new files or all old ones.

The new files are written into a hidden folder. A single rename turns it into ``.NAME.pending``, and
from then on the new files are the valid ones. They are then moved to where the old files are. If
the process is killed before it has moved them all, the next process that reads or writes the unit
moves the rest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nearsight.core.durable_files import name_in_errors, sync
from nearsight.core.locks import hold_lock

REMOVED = ".removed"  # suffix of an empty file that marks a file of the unit for removal


def write_unit(folder: Path, name: str, files: Mapping[str, bytes | None]) -> None:
    """Write all files of a unit or none, even if the process is killed or the power fails.

    Args:
        folder: An existing folder.
        name: The name of the unit. Processes that write the same unit take turns.
        files: The contents of each file by its name. None removes the file.
    """
    with hold_lock(folder / f".{name}.lock"):
        _move(folder, name)
        for left in folder.glob(f".{name}.*.tmp"):  # left by processes that were killed
            shutil.rmtree(left, ignore_errors=True)
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        temporary.mkdir()
        try:
            for file, content in files.items():
                path = temporary / (file if content is not None else file + REMOVED)
                with name_in_errors(folder / file), path.open("wb") as handle:
                    handle.write(content or b"")
                    handle.flush()
                    os.fsync(handle.fileno())
            sync(temporary)
            temporary.rename(_pending(folder, name))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync(folder)
        _move(folder, name)


def finish_unit(folder: Path, name: str) -> None:
    """Complete a unit whose writer was killed after the rename; otherwise do nothing."""
    if _pending(folder, name).is_dir():
        with hold_lock(folder / f".{name}.lock"):
            _move(folder, name)


def _move(folder: Path, name: str) -> None:
    """Move pending files over the old ones, and remove what the unit removes.

    The caller must hold the lock of the unit.
    """
    pending = _pending(folder, name)
    if not pending.is_dir():
        return
    for path in sorted(pending.iterdir()):
        if path.name.endswith(REMOVED):
            (folder / path.name.removesuffix(REMOVED)).unlink(missing_ok=True)
            path.unlink()
        else:
            path.replace(folder / path.name)
    sync(folder)
    pending.rmdir()


def _pending(folder: Path, name: str) -> Path:
    return folder / f".{name}.pending"
