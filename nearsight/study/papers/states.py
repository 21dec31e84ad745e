"""Find which tables and figures were run, at which scale, with how many seeds and verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearsight.core import UserError
from nearsight.runs.records import CLAIMS_FILE
from nearsight.study.claims import CLAIMS
from nearsight.study.design import Level, Scale
from nearsight.study.folder import STUDY, cell_folder, is_finished, read_cells, read_study
from nearsight.study.papers.all_items import ITEMS
from nearsight.study.papers.item import PaperItem

RESULTS = Path(__file__).parents[3] / "results"  # of the repository; a wheel has none
HERE = Path("studies-out")  # where the commands in the docs write studies
ONE_SCALE = ("protocol-small",)  # at the laptop scale, from before there was a choice
COSTS = "costs.json"  # beside this file; docs/make_papers.py writes it


@dataclass(frozen=True)
class ItemState:
    """A study of a table or figure that was run, at least in part."""

    item: PaperItem
    folder: Path
    scale: Scale
    num_seeds: int  # that every condition has
    num_finished: int
    num_cells: int
    decisions: Mapping[str, str]  # by the id of a claim that names the table or figure

    @property
    def verdict(self) -> str:
        """The verdicts on the claims of this table or figure, in a few words."""
        counts = Counter(self.decisions.values())
        return ", ".join(f"{number} {decision}" for decision, number in counts.most_common())

    def __str__(self) -> str:
        done = "" if self.num_finished == self.num_cells else (
            f", {self.num_finished} of {self.num_cells} cells"
        )  # fmt: skip
        verdict = f": {self.verdict}" if self.decisions else ""
        return f"{self.scale}, n = {self.num_seeds}{done}{verdict}"

    def contents(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "folder": str(self.folder), "scale": self.scale, "n": self.num_seeds,
            "finished": self.num_finished, "cells": self.num_cells,
            "decisions": dict(self.decisions),
        }  # fmt: skip


def study_folders(places: Sequence[Path]) -> list[Path]:
    """Return every study folder among some folders, and those directly in them.

    Raises:
        UserError: If one of the places does not exist.
    """
    found: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise UserError(f"there is no folder {place}; give the path of a study folder")
        for folder in (place, *sorted(x for x in place.iterdir() if x.is_dir())):
            if (folder / STUDY).is_file():
                found[folder] = None
    return list(found)


def listed_items(
    studies: Sequence[Path] | None = None,
) -> list[tuple[PaperItem, list[ItemState]]]:
    """Return every table and figure with the studies of it that were run.

    Args:
        studies: Study folders, or folders of them, besides the published results. None means
            ``studies-out`` in the current folder, if it exists.
    """
    if studies is None:
        studies = [HERE] if HERE.is_dir() else []
    published = [RESULTS] if RESULTS.is_dir() else []
    runs = [_StudyRun.read(folder) for folder in study_folders([*published, *studies])]
    return [
        (item, [run.state(item) for run in runs if run.study in item.recipes and run.seeds])
        for item in ITEMS
    ]


@dataclass(frozen=True)
class _StudyRun:
    """The contents of a study folder, read once for all tables and figures."""

    folder: Path
    study: str
    scale: Scale
    seeds: tuple[tuple[tuple[tuple[str, Level], ...], int], ...]  # condition, seed of each finished
    num_cells: int
    conditions: int
    decisions: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, folder: Path) -> _StudyRun:
        record, cells = read_study(folder), read_cells(folder)
        finished = [x for x in cells if is_finished(cell_folder(folder, x))]
        decisions: dict[str, list[str]] = {}
        if (folder / CLAIMS_FILE.name).is_file():
            for verdict in CLAIMS_FILE.read(folder).contents()["verdicts"]:
                if verdict["parts"]:
                    decisions.setdefault(verdict["id"], []).append(verdict["decision"])
        return cls(
            folder=folder,
            study=record.study,
            scale=record.scale or ("laptop" if record.study in ONE_SCALE else "paper"),
            seeds=tuple((tuple(sorted(x.factors.items())), x.seed) for x in finished),
            num_cells=len(cells),
            conditions=len({tuple(sorted(x.factors.items())) for x in cells}),
            decisions={id: tuple(found) for id, found in decisions.items()},
        )

    def state(self, item: PaperItem) -> ItemState:
        per_condition = Counter(condition for condition, _ in self.seeds)
        whole = len(per_condition) == self.conditions
        decided = {
            claim.id: " or ".join(dict.fromkeys(self.decisions[claim.id]))
            for claim in CLAIMS
            if claim.facts is None  # otherwise no study decides it
            and claim.id in self.decisions
            and item.is_source(claim.source)
        }
        return ItemState(
            item=item,
            folder=self.folder,
            scale=self.scale,
            num_seeds=min(per_condition.values()) if whole else 0,
            num_finished=len(self.seeds),
            num_cells=self.num_cells,
            decisions=decided,
        )


@cache
def recipe_costs() -> dict[str, dict[str, dict[str, float]]]:
    """Return the numbers of cells and operations of every recipe by scale, as last counted."""
    text = (files("nearsight.study.papers") / COSTS).read_text()
    return dict(json.loads(text))
