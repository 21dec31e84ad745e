"""Decode a data set once, into flat files of bytes that are memory-mapped from then on.

A decoded set is a folder ``<slot>-<key>`` with ``train.images``, ``train.labels``, ..., and
``manifest.json``, which holds the sha256 of every file. The slot depends on where the source is,
and the key on its state (paths, sizes, times of change). A source that has changed is decoded
again, and so is a set with a file whose hash is wrong. The folder gets its name by one rename when
all of it is on the disk, and a lock lets one process decode while others wait for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsight.core import UserError, hold_lock, sync
from nearsight.data.sets.dataset import Dataset, ImageSet, histogram, statistics

SCHEMA_VERSION = 2  # since version 2, images are turned upright by their EXIF data
ARRAYS = {"images": np.uint8, "labels": np.int64, "masks": np.uint8}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decoding:
    """How to decode one data set, and what the decoded bytes depend on."""

    name: str
    source: str  # where the data come from; does not change with their content
    key: str  # the state of the source, which changes with its content
    classes: tuple[str, ...]
    splits: Mapping[str, Callable[[], Iterable[ImageSet]]]  # "train" and "test", in pieces
    origin: Callable[[], str] = lambda: "generated"
    notes: Callable[[], tuple[str, ...]] = tuple  # called after the last piece

    @property
    def slot(self) -> str:
        """Return the start of the folder's name, which is the same for all states of the source."""
        return f"{self.name.partition(':')[0]}-{_digest(self.source)}"

    @property
    def folder(self) -> str:
        """Return the name of the folder in the cache."""
        return f"{self.slot}-{_digest(self.key)}"


def cache_folders(root: Path) -> list[Path]:
    """Return the two folders that may hold decoded sets: beside the data sets, and at home."""
    return [root / ".nearsight-cache", Path.home() / ".cache" / "nearsight" / "decoded"]


def writable_cache(root: Path) -> Path:
    """Return the folder for new decoded sets: beside the data sets if writable, or at home."""
    beside, home = cache_folders(root)
    return beside if os.access(beside if beside.exists() else root, os.W_OK) else home


def load_decoded(decoding: Decoding, root: Path, again: bool = False) -> Dataset:
    """Return a data set from the cache; decode it first if it is missing, stale or damaged.

    Args:
        decoding: What to decode.
        root: The folder of data sets.
        again: Decode the source even if the cache has it.
    """
    beside, home = cache_folders(root)
    for cache in () if again else (beside, home):
        if (dataset := _open_decoded(cache / decoding.folder, decoding.name)) is not None:
            return dataset
    cache = writable_cache(root)
    cache.mkdir(parents=True, exist_ok=True)
    with hold_lock(cache / f"{decoding.slot}.lock"):
        dataset = None if again else _open_decoded(cache / decoding.folder, decoding.name)
        if dataset is None:
            log.info("decoding %s once into %s", decoding.name, cache)
            _build(decoding, cache)
            dataset = _open_decoded(cache / decoding.folder, decoding.name)
    if dataset is None:
        raise OSError(
            f"{cache / decoding.folder} differs from what was just written; check the disk"
        )
    return dataset


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _open_decoded(folder: Path, name: str) -> Dataset | None:
    """Open the decoded set in ``folder``; return None if it is missing or damaged."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest["schema_version"] != SCHEMA_VERSION:
            return None
        if manifest.pop("digest") != _digest(json.dumps(manifest)):
            raise UserError("manifest.json has changed")
        return Dataset(
            name=name,
            classes=tuple(manifest["classes"]),
            mean=tuple(manifest["mean"]),
            std=tuple(manifest["std"]),
            hash=manifest["hash"],
            origin=manifest["origin"],
            notes=tuple(manifest["notes"]),
            train=_map_arrays(folder, manifest, "train"),
            test=_map_arrays(folder, manifest, "test"),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        log.warning("%s is damaged (%s) and will be decoded again", folder, problem)
        return None


def _map_arrays(folder: Path, manifest: dict[str, Any], split: str) -> ImageSet:
    """Map the files of a split into memory after checking their hashes."""
    arrays: dict[str, np.ndarray] = {}
    for kind, dtype in ARRAYS.items():
        file = manifest["files"].get(f"{split}.{kind}")
        if file is None:
            continue
        array = np.memmap(folder / f"{split}.{kind}", dtype, "r", shape=tuple(file["shape"]))
        size = (folder / f"{split}.{kind}").stat().st_size
        if size != array.nbytes or hashlib.sha256(array.data).hexdigest() != file["sha256"]:
            raise UserError(f"{split}.{kind} has changed")
        arrays[kind] = array
    return ImageSet(**arrays)


def _build(decoding: Decoding, cache: Path) -> None:
    """Write the decoded set to a partial folder, then move it; the caller holds the lock."""
    for left in cache.glob(f"{decoding.slot}-*"):  # stale, damaged, or left by a killed process
        shutil.rmtree(left)
    partial = cache / f"{decoding.folder}.partial"
    partial.mkdir()
    try:
        manifest = _write_arrays(decoding, partial)
        with (partial / "manifest.json").open("w") as handle:
            json.dump({**manifest, "digest": _digest(json.dumps(manifest))}, handle, indent=1)
        for path in partial.iterdir():
            sync(path)
        sync(partial)
        partial.rename(cache / decoding.folder)
        sync(cache)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _write_arrays(decoding: Decoding, folder: Path) -> dict[str, Any]:
    """Write every array, piece by piece, and return the manifest."""
    files: dict[str, dict[str, Any]] = {}
    counts = {}
    for split, pieces in decoding.splits.items():
        counts[split] = np.zeros((3, 256), np.int64)
        for piece in pieces():
            counts[split] += histogram(piece.images)
            for kind in ARRAYS:
                if (array := getattr(piece, kind)) is not None:
                    _append(folder, files, f"{split}.{kind}", np.ascontiguousarray(array))
    notes = decoding.notes()
    for split in decoding.splits:
        if f"{split}.labels" not in files:
            raise UserError(
                f"{decoding.name} has no {split} images that can be read; repair or add images"
            )
    for file in files.values():
        file["sha256"] = file["sha256"].hexdigest()
    content = "".join(
        f"{name} {file['shape']} {file['sha256']}\n"
        for name, file in sorted(files.items())
        if not name.endswith("masks")
    )
    mean, std = statistics(counts["train"])
    return {
        "schema_version": SCHEMA_VERSION,
        "name": decoding.name,
        "classes": decoding.classes,
        "mean": mean,
        "std": std,
        "hash": _digest(content),
        "origin": decoding.origin(),
        "notes": notes,
        "files": files,
    }


def _append(folder: Path, files: dict[str, dict[str, Any]], name: str, array: np.ndarray) -> None:
    file = files.setdefault(name, {"shape": [0, *array.shape[1:]], "sha256": hashlib.sha256()})
    file["shape"][0] += len(array)
    file["sha256"].update(array)
    with (folder / name).open("ab") as handle:
        handle.write(array.data)
