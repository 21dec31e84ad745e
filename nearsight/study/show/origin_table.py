"""Tabulate which software, machine and day the finished cells of a study come from.

The cells of a study may be made in several sessions and on several machines, and be replaced one by
one when nearsight's numbers change. The page then says which cells were made with which software.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from nearsight.measure.folders import VALUES
from nearsight.report.write import Cell, Column, Table
from nearsight.runs import ANSWERS
from nearsight.study.analyse import MINIMA, FinishedCell, LoadedStudy, condition_text
from nearsight.study.design import Software

NOT_RECORDED = "not recorded"
NOTE = (
    "The cells of a row were made with the same software. With other software, the last digits of "
    "numbers may differ. Intervals over seeds and images need values per image of all cells."
)


def origin_table(study: LoadedStudy) -> Table:
    """Tabulate the finished cells by the software that made them, newest first."""
    columns = (
        Column("finished cells", "cells", "count"),
        Column("which", "which"),
        Column("begun", "begun"),
        Column("nearsight's numbers", "numbers"),
        Column("torch", "torch"),
        Column("timm", "timm"),
        Column("compiled kernel", "kernel"),
        Column("commit", "commit"),
        Column("CPU", "cpu"),
        Column("right or wrong per image", "answers"),
        Column("min MAD per image", "minima"),
    )
    rows = [_row(software, cells, study) for software, cells in by_software(study).items()]
    return Table("origin", columns, rows, "Where the cells come from", NOTE)


def origin_sentence(study: LoadedStudy) -> str:
    """Say whether cells are missing or were made with different software; empty if not."""
    groups, num = by_software(study), len(study.cells)
    said = []
    if len(study.finished) < num:
        said.append(f"{len(study.finished)} of {num} cells are finished.")
    if len(groups) > 1:
        (newest, first), *_ = groups.items()
        numbers = newest.numbers or NOT_RECORDED
        said.append(
            f"{len(first)} of {len(study.finished)} finished cells were made with the newest "
            f"software (nearsight's numbers {numbers}, torch {newest.torch}): "
            f"{_which(first, study)}. The others were made with older software, and the results "
            "mix both."
        )
    return " ".join(said)


def by_software(study: LoadedStudy) -> dict[Software, list[FinishedCell]]:
    """Return the finished cells by the software that made them, newest first."""
    found: dict[Software, list[FinishedCell]] = {}
    for x in study.finished:
        found.setdefault(x.cell.software, []).append(x)
    return dict(sorted(found.items(), key=lambda item: _age(item[0]), reverse=True))


def _age(software: Software) -> tuple[int, str]:
    return software.numbers or 0, str(astuple(software))


def _row(software: Software, cells: Sequence[FinishedCell], study: LoadedStudy) -> tuple[Cell, ...]:
    sources = [x.record.provenance for x in cells]
    kernel = {True: "yes", False: "no", None: NOT_RECORDED}[software.kernel]
    days = sorted({str(x.started)[:10] for x in sources})
    return (
        len(cells),
        _which(cells, study),
        " to ".join(dict.fromkeys((days[0], days[-1]))),
        str(software.numbers or NOT_RECORDED),
        software.torch,
        software.timm or NOT_RECORDED,
        kernel,
        ", ".join(dict.fromkeys(str(x.commit or "unknown")[:7] for x in sources)),
        ", ".join(dict.fromkeys(str(x.hardware.get("cpu", NOT_RECORDED)) for x in sources)),
        _how_many(cells, ANSWERS),
        _how_many(cells, VALUES, MINIMA),
    )


def _how_many(cells: Sequence[FinishedCell], *names: str) -> str:
    there = sum(any((x.files.path / name).is_file() for name in names) for x in cells)
    return {0: "none", len(cells): "all"}.get(there, f"{there} of {len(cells)}")


def _which(cells: Sequence[FinishedCell], study: LoadedStudy) -> str:
    """Name the conditions and seeds of some cells, with conditions of the same seeds together.

    If these are all conditions of the study, the text says "all conditions".
    """
    seeds: dict[str, list[str]] = {}
    for x in cells:
        seeds.setdefault(condition_text(x.cell.factors), []).append(str(x.cell.seed))
    together: dict[str, list[str]] = {}
    for condition, found in seeds.items():
        together.setdefault(", ".join(found), []).append(condition)
    every = {condition_text(x.cell.factors) for x in study.cells}
    return "; ".join(
        f"{'all conditions' if set(names) == every else ' and '.join(names)}, "
        f"seed{'s' * (',' in found)} {found}"
        for found, names in together.items()
    )
