"""Several files of a folder written as one unit: all of them are the new ones, or all the old ones.

The new files are written into a hidden folder, which one rename turns into ``.NAME.pending``. From
then on they count. They are moved to their places at once, or, if the process is killed before
that, by the next one that reads or writes the unit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nearsight.core.durable_files import naming, sync
from nearsight.core.locks import hold_lock

REMOVED = ".removed"  # the end of the name of a note that a file of the unit is to go


def write_unit(folder: Path, name: str, files: Mapping[str, bytes | None]) -> None:
    """Write the files of a unit, all or none; it survives a kill and a power cut.

    Args:
        folder: A folder that exists.
        name: The name of the unit. Processes that write the same unit take turns.
        files: The contents of each file by name; None removes a file.
    """
    with hold_lock(folder / f".{name}.lock"):
        _move(folder, name)
        for left in folder.glob(f".{name}.*.tmp"):  # of processes that were killed
            shutil.rmtree(left, ignore_errors=True)
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        temporary.mkdir()
        try:
            for file, content in files.items():
                path = temporary / (file if content is not None else file + REMOVED)
                with naming(folder / file), path.open("wb") as handle:
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
    """Move the files of a unit to their places, if a process was killed before it had done so."""
    if _pending(folder, name).is_dir():
        with hold_lock(folder / f".{name}.lock"):
            _move(folder, name)


def _move(folder: Path, name: str) -> None:
    """The same; the caller holds the lock."""
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
