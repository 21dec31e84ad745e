"""Download a data set, or import a folder or an official archive, into the data root.

A data set is prepared in a partial folder, its files are counted, and the folder is renamed, so a
killed process never leaves half a data set. A lock lets only one process at a time download or
import the same set. An archive is unpacked only if its checksum is right, and only plain files
below the expected folder are taken from it.
"""

from __future__ import annotations

import glob
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from nearsight.core import UserError, hold_lock, sync
from nearsight.data.fetch.download import Progress, download, file_sha256
from nearsight.data.sets import (
    OFFICIAL,
    data_root,
    dataset_name,
    describe_decoding,
    folder_digest,
    origin_of,
    source_of,
    sources,
    write_origin,
)

# What Python raises for a damaged archive; RuntimeError is for a password or an unknown method.
UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError,
)  # fmt: skip


def fetch_dataset(
    name: str,
    root: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download, check and unpack a data set, unless it is there already.

    Args:
        name: One of the data sets that have an official archive, for example "cifar100".
        root: The folder of data sets; by default $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        progress: Called with the number of bytes received so far and the number in all.

    Returns:
        The folder of the data set.

    Raises:
        UserError: If the name is unknown, the set cannot be downloaded, or the file is not the
            official one.
    """
    if dataset_name(name) not in sources():
        raise UserError(
            f"{name} cannot be downloaded; only {', '.join(sources())} have an official archive"
        )
    source = source_of(name)
    root = data_root(root)
    folder = root / source.folder
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    archive = root / source.archive
    with _hold_dataset(folder, "download"):
        if not folder.is_dir():  # another process may have fetched it meanwhile
            if not archive.is_file() or file_sha256(archive) != source.sha256:
                download(source, archive, progress)
            _unpack(archive, name, folder)
            archive.unlink()
    return folder


def import_folder(given: Path, root: Path | None = None) -> Path:
    """Copy an unpacked data set, or unpack an official archive, into the data root.

    Returns:
        The folder of the data set in the root.

    Raises:
        UserError: If ``given`` is not a known set, or the root has other files of this set.
    """
    root = data_root(root)
    if given.is_file():
        name = _archive_name(given)
    elif given.is_dir():
        name, given = _folder_name(given)
    else:
        raise UserError(f"there is no file or folder {given}; give the path of a data set")
    folder = root / source_of(name).folder
    root.mkdir(parents=True, exist_ok=True)
    with _hold_dataset(folder, "import"):
        if folder.exists():
            if _is_imported(given, name, folder):
                return folder  # an earlier process imported it
            raise UserError(
                f"{folder} already contains other files of {name}; remove that folder to import "
                "the data set again"
            )
        if given.is_file():
            _unpack(given, name, folder)
        else:
            with _appearing(folder) as partial:
                shutil.copytree(given, partial, dirs_exist_ok=True)
                _check_count(partial, _num_files(given), given)
    return folder


def _is_imported(given: Path, name: str, folder: Path) -> bool:
    """Return whether a folder of the data root has the files of the given archive or folder."""
    if given.is_file():
        return origin_of(folder, source_of(name)) == OFFICIAL
    return folder_digest(given) == folder_digest(folder)


def _hold_dataset(folder: Path, who: str) -> AbstractContextManager[None]:
    """Hold the lock of one data set, or raise UserError if another process has it."""
    return hold_lock(folder.with_name(f".{folder.name}.lock"), who, keep=False)


def _archive_name(path: Path) -> str:
    """Return the data set whose official archive a file is, judged by its checksum."""
    digest = file_sha256(path)
    for name, source in sources().items():
        if source.sha256 == digest:
            return name
    archives = ", ".join(source.archive for source in sources().values())
    raise UserError(
        f"{path} (sha256 {digest}) is none of the official archives {archives}; if it was cut off, "
        "download it again; if you trust it, unpack it yourself and import the folder"
    )


def _folder_name(path: Path) -> tuple[str, Path]:
    """Return the data set that a folder is or contains, and its folder, judged by its files."""
    for name, source in sources().items():
        for folder in (path, path / source.folder):
            if (folder / source.marker).is_file():
                describe_decoding(name, folder)
                return name, folder
    folders = ", ".join(source.folder for source in sources().values())
    raise UserError(
        f"{path} does not contain the files of any of {folders}; an image folder needs no import: "
        f"use it with --data {path}"
    )


def _unpack(archive: Path, name: str, folder: Path) -> None:
    with _appearing(folder) as partial:
        written = set()
        try:
            for member, content in _members(archive):
                target = partial / _inner_path(member, folder.name)
                written.add(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as handle:
                    shutil.copyfileobj(content, handle, 1 << 20)
        except UNREADABLE as problem:
            raise UserError(
                f"{archive} cannot be unpacked ({problem}); download it again"
            ) from None
        _check_count(partial, len(written), archive)
        describe_decoding(name, partial)
        write_origin(partial, source_of(name))


def _num_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder, followlinks=True))


def _check_count(partial: Path, expected: int, source: Path) -> None:
    """Raise UserError if files are missing from a copy, because a process removed them."""
    if (arrived := _num_files(partial)) != expected:
        raise UserError(
            f"{source} has {expected} files, but only {arrived} of them were copied to {partial}; "
            "run the same command again"
        )


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield names and contents of the plain files in an archive; links and devices are left out."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield info.filename, content
        return
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            if member.isfile() and (stream := packed_tar.extractfile(member)) is not None:
                with stream:
                    yield member.name, stream


def _inner_path(member: str, folder: str) -> PurePosixPath:
    """Return a member's path below the folder, or raise UserError if it leads elsewhere."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or path.parts[0] != folder:
        raise UserError(
            f"the archive contains {member!r}, but the official one has only files below "
            f"{folder}/; download it again"
        )
    return PurePosixPath(*path.parts[1:])


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill; rename it to ``folder`` if the block succeeds, else remove it.

    The caller holds the lock of the data set, so other partial folders are left by killed
    processes.
    """
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*partial"):
        shutil.rmtree(left)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        yield partial
        os.sync()
        partial.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
