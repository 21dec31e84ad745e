"""Store features on disk, in half precision and memory-mapped.

A cache is a folder ``features/<key>`` with ``patches`` [image, patch, width], ``cls``
[image, width] if the model has a class token, and ``manifest.json``. The manifest records what the
features depend on (the key is a hash of it) and how many images are done. The cache grows in place,
so that an interrupted extraction continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsight.core import UserError, hold_lock, write_bytes
from nearsight.data.sets import data_root, writable_cache
from nearsight.models.layers import Grid

DTYPE = np.dtype("<f2")
MANIFEST = "manifest.json"
VERSION = 1  # increase it when features change, so that older caches are not used
FOLDER = "features"
FOR_PEOPLE = ("subject", "data", "split")  # facts that only people read; they are not in the key
RESULTS = "results"  # folder of finished outcomes beside the features, which ``tasks`` writes


def cache_root(root: Path | None = None) -> Path:
    """Return the folder of all feature caches, beside the decoded data sets."""
    return writable_cache(data_root(root)) / FOLDER


def deciding_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that decide about the key: all but the names.

    Models with equal weights therefore share a cache, whatever their names are.
    """
    return {name: x for name, x in facts.items() if name not in FOR_PEOPLE}


@dataclass(frozen=True)
class Features:
    """Frozen features of some images at one layer."""

    patches: np.ndarray  # [image, patch, width] in half precision, a memory map
    cls: np.ndarray | None  # [image, width]
    grid: Grid
    key: str  # of the cache

    @property
    def num_images(self) -> int:
        """The number of images."""
        return len(self.patches)

    @property
    def width(self) -> int:
        """The number of features per patch."""
        return int(self.patches.shape[-1])


@dataclass(frozen=True)
class Shape:
    """The sizes of a cache."""

    num_images: int
    rows: int
    cols: int
    width: int
    cls_width: int  # 0: no class token

    @property
    def num_bytes(self) -> int:
        """The size of the cached features on disk."""
        per_image = self.rows * self.cols * self.width + self.cls_width
        return self.num_images * per_image * DTYPE.itemsize


class FeatureCache:
    """The feature caches in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def key(self, facts: Mapping[str, Any]) -> str:
        """Return the first 20 digits of a hash of what the features depend on."""
        text = json.dumps({"version": VERSION, **deciding_facts(facts)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def open(self, facts: Mapping[str, Any]) -> Features | None:
        """Return the features if their extraction is finished, else None.

        Raises:
            UserError: If the folder contains other features, or is damaged.
        """
        manifest = self._manifest(facts)
        if manifest is None or manifest["done"] < manifest["shape"]["num_images"]:
            return None
        return self._mapped(facts, Shape(**manifest["shape"]), "r")

    def num_done(self, facts: Mapping[str, Any]) -> int:
        """Return how many images a cache already has."""
        manifest = self._manifest(facts)
        return manifest["done"] if manifest else 0

    def create(self, facts: Mapping[str, Any], shape: Shape) -> Features:
        """Return features to write into, with what an interrupted extraction wrote earlier.

        Raises:
            UserError: If the cache is damaged, or has features of another shape.
        """
        manifest = self._manifest(facts)
        if manifest is None:
            place = self.folder / self.key(facts)
            place.mkdir(parents=True, exist_ok=True)
            for name, size in _sizes(shape).items():
                with (place / name).open("wb") as file:
                    file.truncate(int(np.prod(size)) * DTYPE.itemsize)
            self.note(facts, shape, 0)
        elif manifest["shape"] != vars(shape):
            raise self._damaged(facts, "its features have another shape")
        return self._mapped(facts, shape, "r+")

    def note(self, facts: Mapping[str, Any], shape: Shape, done: int) -> None:
        """Record how many images are done. Their features must be on disk already."""
        contents = {"version": VERSION, "facts": facts, "shape": vars(shape), "done": done}
        path = self.folder / self.key(facts) / MANIFEST
        write_bytes(path, (json.dumps(contents, indent=1) + "\n").encode())

    def lock(self, facts: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Let one process extract while others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return hold_lock(self.folder / f"{self.key(facts)}.lock", keep=False)

    def _manifest(self, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        path = self.folder / self.key(facts) / MANIFEST
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text())
            theirs = {"version": found["version"], **deciding_facts(found["facts"])}
            done, num = int(found["done"]), int(found["shape"]["num_images"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._damaged(facts, f"its {MANIFEST} cannot be read") from None
        ours = {"version": VERSION, **deciding_facts(facts)}
        if theirs != json.loads(json.dumps(ours)) or done > num:
            raise self._damaged(facts, "it contains features of another model or other images")
        return found

    def _mapped(self, facts: Mapping[str, Any], shape: Shape, mode: Any) -> Features:
        place = self.folder / self.key(facts)
        found: dict[str, np.ndarray] = {}
        for name, size in _sizes(shape).items():
            num_bytes = int(np.prod(size)) * DTYPE.itemsize
            path = place / name
            if not path.is_file() or path.stat().st_size != num_bytes:
                raise self._damaged(facts, f"its file {name} is missing or has another size")
            found[name] = np.memmap(path, DTYPE, mode, shape=size)
        patches = found["patches"].reshape(shape.num_images, -1, shape.width)
        return Features(patches, found.get("cls"), Grid(shape.rows, shape.cols), place.name)

    def _damaged(self, facts: Mapping[str, Any], problem: str) -> UserError:
        key = self.key(facts)
        return UserError(
            f"the feature cache {self.folder / key} cannot be used, because {problem}; delete it "
            f"with `nearsight data cache --delete {key}`"
        )


def _sizes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the shape of the array in every file of a cache."""
    sizes: dict[str, tuple[int, ...]] = {
        "patches": (shape.num_images, shape.rows, shape.cols, shape.width)
    }
    if shape.cls_width:
        sizes["cls"] = (shape.num_images, shape.cls_width)
    return sizes


@dataclass(frozen=True)
class StoredCache:
    """A line of ``nearsight data cache``."""

    key: str
    num_bytes: int
    text: str  # which model, layer and images the features belong to


def stored_caches(folder: Path) -> list[StoredCache]:
    """Return every feature cache in a folder, the largest first, and the finished results."""
    found = []
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        try:
            contents = json.loads(path.read_text())
            facts, shape = contents["facts"], contents["shape"]
            done = "" if contents["done"] == shape["num_images"] else f", {contents['done']} done"
            text = (
                f"{facts['subject']}, layer {facts['layer']} ({facts['place']}), "
                f"{facts['data']} {facts['split']}, {shape['num_images']} images{done}"
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            text = "damaged"
        found.append(StoredCache(path.parent.name, size, text))
    if (folder / RESULTS).is_dir():
        size = sum(file.stat().st_size for file in (folder / RESULTS).rglob("*"))
        num = sum(1 for _ in (folder / RESULTS).iterdir())
        found.append(StoredCache(RESULTS, size, f"{num} finished or interrupted evaluations"))
    return sorted(found, key=lambda each: -each.num_bytes)


def delete_cache(folder: Path, key: str) -> None:
    """Delete one feature cache, or the finished results.

    Raises:
        UserError: If there is no cache with this key.
    """
    known = [each.key for each in stored_caches(folder)]
    if key not in known:
        raise UserError(
            f"there is no feature cache {key!r} among the {len(known)} in {folder}; list them "
            "with `nearsight data cache`"
        )
    shutil.rmtree(folder / key)
