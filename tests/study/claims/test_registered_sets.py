"""A claim about a published data set is decided by the command line on runs given its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from report.example_runs import write_run
from runs.made_records import DATA

from nearsight.models.layers.grid import Grid
from nearsight.protocol import GpsaSettings
from nearsight.protocol.presets import preset
from nearsight.runs.files import RECORD, read_json, write_json
from nearsight.study.design.plan import cells_of
from nearsight.study.design.recipe_file import Condition, Study
from nearsight.study.folder import CELL, cell_folder, write_study

NAME = "imagenet-100"


def study_of(out: Path, data: str, recorded: str, gain: float, num_seeds: int) -> Path:
    """ConViT-S+ with a random start, its gates trained or frozen; ``gain`` is that of training."""
    deit = preset("deit_plus", data)
    conditions = tuple(
        Condition(
            {"gates": trained},
            replace(
                deit,
                model=replace(
                    deit.model,
                    name="convit_small_plus",
                    gpsa=GpsaSettings(train_gates=trained, convolution=False),
                ),
            ),
        )
        for trained in (False, True)
    )
    study = Study(conditions, settings={"measure": {"num_images": 11}})
    cells = cells_of(study, range(num_seeds), {data: DATA["hash"]}, "cpu")
    write_study(out, "made-up", cells, "Do gates help?")
    for cell in cells:
        folder = cell_folder(out, cell)
        contents = (folder / CELL).read_text()
        shutil.rmtree(folder)
        write_run(folder, "deit", cell.seed, data, "convit_small_plus", 12, 9, Grid(14, 14))
        record = read_json(folder / RECORD)
        record["data"]["name"] = recorded
        record["result"]["test_accuracy"] = (
            0.7 + gain * bool(cell.factors["gates"]) + 1e-3 * cell.seed
        )
        write_json(folder / RECORD, record)
        (folder / CELL).write_text(contents)
    return out


@pytest.mark.parametrize(
    ("recorded", "gain", "num_seeds", "decision"),
    [
        (NAME, -0.01, 5, "supported"),  # training the gates lowers accuracy
        (NAME, 0.01, 5, "contradicted"),
        (NAME, -0.01, 4, "undecided, leaning to supported"),
        ("folder:/photos", -0.01, 5, "not decided at this scale"),
    ],
)
@pytest.mark.parametrize("by_path", [False, True])
def test_a_claim_about_a_registered_set_is_decided_by_the_command_line(
    recorded: str, gain: float, num_seeds: int, decision: str, by_path: bool,
    nearsight: Callable[..., tuple[int, str, str]], tmp_path: Path,
) -> None:  # fmt: skip
    """Train records a registered or recognised set by its name (tests/data/sets/test_identity)."""
    asked = "folder:/photos" if by_path or recorded != NAME else NAME
    out = study_of(tmp_path / "study", asked, recorded, gain, num_seeds)
    code, said, err = nearsight("study", "claims", str(out), "--json")
    assert code == 0, err
    found = {x["id"]: x for x in json.loads((out / "claims.json").read_text())["verdicts"]}
    verdict = found["convit-gating-random"]
    assert verdict["decision"] == decision, verdict["reason"]
    assert ("data folder:/photos instead of imagenet-100" in verdict["reason"]) == (
        recorded != NAME
    )
    assert "convit-gating-random" in said
