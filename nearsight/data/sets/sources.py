"""Where the official archives are, what their bytes must be, and the state of files on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ORIGIN_FILE = "origin.json"
OFFICIAL = "official"
NOT_OFFICIAL = "not the official bytes"


@dataclass(frozen=True)
class Source:
    """One official archive."""

    url: str
    md5: str
    folder: str  # what it unpacks to
    marker: str  # a file that only this data set has
    image_size: int  # pixels

    @property
    def archive(self) -> str:
        return self.url.rpartition("/")[2]


SOURCES = {
    "cifar10": Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        folder="cifar-10-batches-bin",
        marker="data_batch_1.bin",
        image_size=32,
    ),
    "cifar100": Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        folder="cifar-100-binary",
        marker="train.bin",
        image_size=32,
    ),
    "tiny-imagenet": Source(
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        md5="90528d7ca1a48142e341f4ef8d21d0de",
        folder="tiny-imagenet-200",
        marker="val/val_annotations.txt",
        image_size=64,
    ),
}


def files_key(folder: Path, paths: Iterable[Path]) -> str:
    """Changes when a file is added, removed, renamed, resized or written."""
    lines = []
    origin = folder / ORIGIN_FILE
    names = sorted({str(path) for path in (*paths, *([origin] if origin.is_file() else []))})
    for name in names:
        state = os.stat(name)
        lines.append(f"{name.removeprefix(str(folder))} {state.st_size} {state.st_mtime_ns}\n")
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def folder_digest(folder: Path) -> str:
    """sha256 over the names and contents of all files in a folder, ``origin.json`` aside."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / ORIGIN_FILE:
            with path.open("rb") as handle:
                content = hashlib.file_digest(handle, "sha256").hexdigest()
            line = f"{path.relative_to(folder).as_posix()} {content}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def write_origin(folder: Path, name: str) -> None:
    """Record that ``folder`` came out of the archive of ``name``, whose checksum was right."""
    record = {"schema_version": 1, "md5": SOURCES[name].md5, "sha256": folder_digest(folder)}
    (folder / ORIGIN_FILE).write_text(json.dumps(record, indent=1) + "\n")


def origin_of(folder: Path, name: str) -> str:
    """``official`` if the files are those of the checksummed archive, else not."""
    try:
        record = json.loads((folder / ORIGIN_FILE).read_text())
        official = record["md5"] == SOURCES[name].md5 and record["sha256"] == folder_digest(folder)
    except (OSError, ValueError, KeyError, TypeError):
        official = False
    return OFFICIAL if official else NOT_OFFICIAL
