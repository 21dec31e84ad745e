"""Study folders of made-up finished runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from report.example_runs import write_run

from nearsight.study.designs import eight
from nearsight.study.folder import CELL, cell_folder, write_study
from nearsight.study.plan import cells_of
from nearsight.study.recipe import Condition, Study

SEEDS = (0, 1, 2)


def a_study(out: Path, leave_out: int = 0, data: str = "shapes", whole: bool = False) -> Path:
    """AutoAugment x CutMix (``whole``: x label smoothing); the last cells may be missing."""
    conditions = tuple(
        Condition({name: on for name, on in factors.items() if whole or name in PAIR}, protocol)
        for factors, protocol in eight(data)
        if whole or not factors["labelsmoothing"]
    )
    cells = cells_of(Study(conditions), SEEDS, {data: "aa"}, "cpu")
    write_study(out, "made-up", cells, "Is it made up?")
    for cell in cells[: len(cells) - leave_out]:
        folder = cell_folder(out, cell)
        contents = (folder / CELL).read_text()
        shutil.rmtree(folder)
        write_run(folder, cell.protocol.name, cell.seed, data)
        (folder / CELL).write_text(contents)
    return out


PAIR = ("autoaugment", "cutmix")
