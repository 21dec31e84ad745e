"""Define what a named data set declares, and recognise official and changed files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nearsight.data.sets.cache import Decoding

ORIGIN_FILE = "origin.json"
OFFICIAL = "official"
NOT_OFFICIAL = "not the official bytes"


@dataclass(frozen=True)
class Archive:
    """The official archive of a data set."""

    url: str
    sha256: str
    num_bytes: int
    folder: str  # the name of the unpacked folder
    marker: str  # a file that only this data set has

    @property
    def archive(self) -> str:
        """Return the file name of the archive."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class NamedSet:
    """A data set that users select by name.

    The module of the data set makes one, and a line in the table of ``catalog.py`` registers it.
    """

    image_size: int  # pixels
    decode: Callable[[Path, bool], Decoding]  # (its folder, whether to skip corrupt images)
    source: Archive | None = None  # None: it is generated


def files_key(folder: Path, paths: Iterable[Path]) -> str:
    """Return a key that changes when a file is added, removed, renamed or written.

    The key also depends on the time of change of the inode, because tools that copy files can keep
    the time of writing.
    """
    lines = []
    origin = folder / ORIGIN_FILE
    names = sorted({str(path) for path in (*paths, *([origin] if origin.is_file() else []))})
    for name in names:
        state = os.stat(name)
        lines.append(f"{name.removeprefix(str(folder))} {state.st_size} {state.st_mtime_ns}")
        lines.append(f" {state.st_ctime_ns}\n")
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def folder_digest(folder: Path) -> str:
    """Return the sha256 over names and contents of all files in a folder except ``origin.json``."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / ORIGIN_FILE:
            with path.open("rb") as handle:
                content = hashlib.file_digest(handle, "sha256").hexdigest()
            line = f"{path.relative_to(folder).as_posix()} {content}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def write_origin(folder: Path, source: Archive) -> None:
    """Record that ``folder`` was unpacked from the official archive after checking its checksum."""
    record = {
        "schema_version": 2,
        "archive_sha256": source.sha256,
        "sha256": folder_digest(folder),
    }
    (folder / ORIGIN_FILE).write_text(json.dumps(record, indent=1) + "\n")


def origin_of(folder: Path, source: Archive) -> str:
    """Return OFFICIAL if the files are still those of the archive, else NOT_OFFICIAL."""
    try:
        record = json.loads((folder / ORIGIN_FILE).read_text())
        known = record["schema_version"] == 1 or record["archive_sha256"] == source.sha256
        official = known and record["sha256"] == folder_digest(folder)
    except (OSError, ValueError, KeyError, TypeError):
        official = False
    return OFFICIAL if official else NOT_OFFICIAL
