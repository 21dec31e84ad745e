"""Find runs and studies below folders, and never read anything outside of them.

Symbolic links that lead out of the given folder are ignored, so that a page or a server for
``runs/`` shows only what is in ``runs/``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearsight.runs import RECORD

STUDY = "study.json"
MAX_DEPTH = 5  # levels of folders to search; the cells of a study are two levels below it


@dataclass(frozen=True)
class Found:
    """The folders of runs and of studies, by the names that the page shows."""

    runs: dict[str, Path]
    studies: dict[str, Path]


def find_folders(roots: Sequence[Path]) -> Found:
    """Find all runs and studies in the given folders and below them."""
    runs: dict[str, Path] = {}
    studies: dict[str, Path] = {}
    for root in roots:
        for folder in _folders(Path(root)):
            name = _name(folder, Path(root))
            if inside(folder / RECORD, root):
                runs.setdefault(name, folder)
            if inside(folder / STUDY, root):
                studies.setdefault(name, folder)
    return Found(runs, studies)


def inside(path: Path, root: Path) -> bool:
    """Tell whether a path is a file below ``root`` after all links are followed."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # the file is missing, or its links form a loop
        return False
    return real.is_file() and real.is_relative_to(Path(root).resolve())


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folder and those below it in alphabetical order, without hidden ones."""
    for place, below, _ in os.walk(root):
        depth = len(Path(place).relative_to(root).parts)
        below[:] = sorted(x for x in below if not x.startswith(".")) if depth < MAX_DEPTH else []
        yield Path(place)


def _name(folder: Path, root: Path) -> str:
    """Return the name of a run: its path relative to the parent of the given folder."""
    relative = folder.relative_to(root).as_posix()
    own = root.resolve().name
    return own if relative == "." else f"{own}/{relative}"
