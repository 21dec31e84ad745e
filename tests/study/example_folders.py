"""Study folders of made-up finished runs."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from report.example_runs import write_run
from runs.made_records import DATA

from nearsight.measure.layout.tokens import LayerFacts
from nearsight.measure.metrics.estimates import Estimates
from nearsight.measure.profile.profile import Profile
from nearsight.measure.profile.values import VALUES, write_values
from nearsight.models.layers.grid import Grid
from nearsight.protocol.schema import Optimizer
from nearsight.runs.files import RECORD, read_json, write_json
from nearsight.study.design.designs import cutmix_off_and_on, eight
from nearsight.study.design.plan import cells_of
from nearsight.study.design.recipe_file import Condition, Study
from nearsight.study.folder import CELL, cell_folder, read_cells, write_study

SEEDS = (0, 1, 2)
PAIR = ("autoaugment", "cutmix")


def a_study(out: Path, leave_out: int = 0, data: str = "shapes", whole: bool = False) -> Path:
    """AutoAugment x CutMix (``whole``: x label smoothing); the last cells may be missing."""
    conditions = tuple(
        Condition({name: on for name, on in factors.items() if whole or name in PAIR}, protocol)
        for factors, protocol in eight(data)
        if whole or not factors["labelsmoothing"]
    )
    return written(out, conditions, leave_out)


def of_rates(out: Path) -> Path:
    """CutMix at three learning rates."""
    conditions = tuple(
        Condition({"rate": rate, "cutmix": cutmix}, replace(protocol, optimizer=Optimizer(lr=rate)))
        for rate in (0.1, 0.01, 0.001)
        for cutmix, protocol in cutmix_off_and_on("shapes")
    )
    return written(out, conditions)


def written(out: Path, conditions: tuple[Condition, ...], leave_out: int = 0) -> Path:
    """A study folder in which all cells but the last ``leave_out`` are finished."""
    data = conditions[0].protocol.data.name
    study = Study(conditions, settings={"measure": {"num_images": 11}})  # as write_run
    cells = cells_of(study, SEEDS, {data: DATA["hash"]}, "cpu")
    write_study(out, "made-up", cells, "Is it made up?")
    for cell in cells[: len(cells) - leave_out]:
        folder = cell_folder(out, cell)
        contents = (folder / CELL).read_text()
        shutil.rmtree(folder)
        write_run(folder, cell.protocol.name, cell.seed, data)
        record = read_json(folder / RECORD)
        settings = record["protocol"]
        settings["optimizer"] = asdict(cell.protocol.optimizer)
        settings["model"]["weights"] = cell.protocol.model.weights
        write_json(folder / RECORD, record)
        (folder / CELL).write_text(contents)
    return out


def values_per_image(out: Path) -> None:
    """Of every cell: seven images, 0.1 lower with CutMix."""
    rng = np.random.default_rng(0)
    facts = LayerFacts("attn", "Attention", Grid(3, 5), 2, 1, 15, 1, 0.0, None)
    for cell in read_cells(out):
        values = [rng.uniform(0.3, 0.4, (7, 2)) - 0.1 * cell.factors["cutmix"] for _ in range(5)]
        profile = Profile((facts,) * 5, (), {"mad": Estimates(values)})
        write_values(cell_folder(out, cell) / VALUES, profile, [f"test/{i}" for i in range(7)])
