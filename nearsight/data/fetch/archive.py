"""Download a data set, or import a folder or an official archive, into the data root.

A data set appears in the root by one rename of a finished folder, so a killed process never leaves
half of one. A lock per data set lets one process at a time download or import it; each works in its
own partial folder, and the files are counted before the rename. An archive is unpacked only if its
checksum is right, and only plain files below the expected folder are taken from it.
"""

from __future__ import annotations

import glob
import os
import shutil
import tarfile
import zipfile
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


def fetch_dataset(
    name: str,
    root: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download, check and unpack a data set, unless it is there already.

    Args:
        name: One of the data sets that have an official archive, for example "cifar100".
        root: The folder of data sets; by default $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        progress: Called with the bytes received so far and in all.

    Returns:
        The folder of the data set.

    Raises:
        UserError: If the set cannot be downloaded, or the file is not the official one.
    """
    if dataset_name(name) not in sources():
        raise UserError(f"{name} needs no download; only {', '.join(sources())} do")
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
        UserError: If nothing known is found at ``given``, or the root has other files of this set.
    """
    root = data_root(root)
    if given.is_file():
        name = _archive_name(given)
    elif given.is_dir():
        name, given = _folder_name(given)
    else:
        raise UserError(f"there is no file or folder {given}")
    folder = root / source_of(name).folder
    root.mkdir(parents=True, exist_ok=True)
    with _hold_dataset(folder, "import"):
        if folder.exists():
            if _is_imported(given, name, folder):
                return folder  # by a process that was killed just then, or before
            raise UserError(
                f"another {name} is already in {folder}; remove that folder to import it anew"
            )
        if given.is_file():
            _unpack(given, name, folder)
        else:
            with _appearing(folder) as partial:
                shutil.copytree(given, partial, dirs_exist_ok=True)
                _check_count(partial, _num_files(given), given)
    return folder


def _is_imported(given: Path, name: str, folder: Path) -> bool:
    """Return whether a folder of the data root has the files of an archive or of another folder."""
    if given.is_file():
        return origin_of(folder, source_of(name)) == OFFICIAL
    return folder_digest(given) == folder_digest(folder)


def _hold_dataset(folder: Path, who: str) -> AbstractContextManager[None]:
    """Hold the lock of one data set, or raise UserError if another process has it."""
    return hold_lock(folder.with_name(f".{folder.name}.lock"), who, keep=False)


def _archive_name(path: Path) -> str:
    digest = file_sha256(path)
    for name, source in sources().items():
        if source.sha256 == digest:
            return name
    archives = ", ".join(source.archive for source in sources().values())
    raise UserError(
        f"{path} (sha256 {digest}) is none of the official archives {archives}; it may be cut off. "
        "If you trust it, unpack it yourself and import the folder"
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
        except (tarfile.TarError, zipfile.BadZipFile, EOFError) as problem:
            raise UserError(f"{archive} cannot be unpacked: {problem}") from None
        _check_count(partial, len(written), archive)
        describe_decoding(name, partial)
        write_origin(partial, source_of(name))


def _num_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder, followlinks=True))


def _check_count(partial: Path, expected: int, source: Path) -> None:
    """Raise UserError if files are missing from a copy, for example removed by a process."""
    if (arrived := _num_files(partial)) != expected:
        raise UserError(
            f"{source} has {expected} files, but only {arrived} of them arrived in {partial}; "
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
            f"the archive contains {member!r}, but should contain only files below {folder}/; "
            "it is not the official archive"
        )
    return PurePosixPath(*path.parts[1:])


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill; move it to ``folder`` if the block succeeds, else remove it.

    The caller holds the lock of the data set, so any other partial folder is from a killed process.
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
