"""Find runs and studies below folders, and never read anything outside of them.

A link that leads out of the folder it was found in is passed over, so that a page or a server that
was given ``runs/`` shows what is in ``runs/`` and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearsight.runs import RECORD

STUDY = "study.json"
MAX_DEPTH = 5  # folders below the one given: a study's cells are two below it


@dataclass(frozen=True)
class Found:
    """The folders of runs and of studies, each with the name it is shown by."""

    runs: dict[str, Path]
    studies: dict[str, Path]


def find_folders(roots: Sequence[Path]) -> Found:
    """Find all runs and studies in the folders given and below them."""
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
    """Tell whether a path is a file that lies below ``root`` once all links are followed."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # absent, or links in a circle
        return False
    return real.is_file() and real.is_relative_to(Path(root).resolve())


def _folders(root: Path) -> Iterator[Path]:
    """The folder itself and those below, in the order of their names, without hidden ones."""
    for place, below, _ in os.walk(root):
        depth = len(Path(place).relative_to(root).parts)
        below[:] = sorted(x for x in below if not x.startswith(".")) if depth < MAX_DEPTH else []
        yield Path(place)


def _name(folder: Path, root: Path) -> str:
    """The name of a run: its path below the parent of the folder that was given."""
    relative = folder.relative_to(root).as_posix()
    own = root.resolve().name
    return own if relative == "." else f"{own}/{relative}"
