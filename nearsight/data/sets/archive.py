"""Data sets into the data root: fetched, or imported from a folder or an official archive.

A data set appears in the root by one rename of a finished folder, so a killed process leaves none
in part. A lock per data set lets one process at a time fetch or import it, each in a partial folder
of its own, and the files are counted before the rename. Archives are unpacked only after their
checksum was right, and only plain files below the expected folder are taken from them.
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
from nearsight.data.sets.catalog import (
    data_root,
    dataset_name,
    described,
    source_of,
    sources,
)
from nearsight.data.sets.download import Progress, download, file_sha256
from nearsight.data.sets.sources import write_origin


def fetch_dataset(
    name: str,
    root: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download, check and unpack a data set; the path of its folder."""
    if dataset_name(name) not in sources():
        raise UserError(f"{name} needs no download; those that do are {', '.join(sources())}")
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
    """Copy an unpacked data set, or unpack an official archive, into the root; its folder there."""
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
            raise UserError(f"{name} is already in {folder}; remove that folder to import it anew")
        if given.is_file():
            _unpack(given, name, folder)
        else:
            with _appearing(folder) as partial:
                shutil.copytree(given, partial, dirs_exist_ok=True)
                _check_count(partial, _num_files(given), given)
    return folder


def _hold_dataset(folder: Path, who: str) -> AbstractContextManager[None]:
    """Hold the lock of one data set of the root; UserError if another process has it."""
    return hold_lock(folder.with_name(f".{folder.name}.lock"), who, keep=False)


def _archive_name(path: Path) -> str:
    found = file_sha256(path)
    for name, source in sources().items():
        if source.sha256 == found:
            return name
    archives = ", ".join(source.archive for source in sources().values())
    raise UserError(
        f"{path} (sha256 {found}) is none of the official archives {archives}: it is cut off or "
        "another file; unpack it yourself and import the folder"
    )


def _folder_name(path: Path) -> tuple[str, Path]:
    """Which data set a folder is, or holds, by its structure; UserError if it is damaged."""
    for name, source in sources().items():
        for folder in (path, path / source.folder):
            if (folder / source.marker).is_file():
                described(name, folder)
                return name, folder
    folders = ", ".join(source.folder for source in sources().values())
    raise UserError(
        f"{path} has the files of none of {folders}; an image folder needs no import, "
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
        described(name, partial)
        write_origin(partial, source_of(name))


def _num_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder, followlinks=True))


def _check_count(partial: Path, expected: int, source: Path) -> None:
    """Refuse a copy in which files are missing, for example because a process removed them."""
    if (found := _num_files(partial)) != expected:
        raise UserError(
            f"{source} has {expected} files, but only {found} of them arrived in {partial}; "
            "run the same command again"
        )


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the plain files; links and devices are left out."""
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
    """The path of a member below the expected folder; UserError if it leads elsewhere."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or path.parts[0] != folder:
        raise UserError(f"the archive holds {member!r}, expected only files below {folder}/")
    return PurePosixPath(*path.parts[1:])


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes its place when the block ends well, and is removed otherwise.

    The caller holds the lock of the data set, so what other processes left is from killed ones.
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
