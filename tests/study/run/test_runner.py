"""A study in processes: killed and run again it is the undisturbed one; failures stop no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_data import write_coloured_folder
from runs.made_records import run_contents
from typer.testing import CliRunner

from nearsight.cli.app import app
from nearsight.core.errors import UserError
from nearsight.core.locks import hold_lock
from nearsight.runs.files import LOG, MEASURE, RECORD, WEIGHTS, read_measure, write_json
from nearsight.runs.records import FINISHED
from nearsight.study.design.recipe_file import read_recipe
from nearsight.study.folder import (
    RUNNER_LOCK,
    WORKER_LOG,
    cell_folder,
    failure,
    read_cells,
    state_of,
    write_study,
)
from nearsight.study.run.runner import plan_cells, run_study
from nearsight.train.loop import train_run

pytestmark = [pytest.mark.training, pytest.mark.processes]

RECIPE = '''"""Do three rates differ on coloured squares?

Command: none
Hardware: any
Time: seconds
Expected: the rate of 1e9 fails
"""

from dataclasses import replace

from nearsight.protocol.presets import preset
from nearsight.protocol.schema import DataSettings, ModelSettings
from nearsight.study.design.recipe_file import Condition, Study


def study():
    base = replace(
        preset("baseline", "folder:{root}"), data=DataSettings(name="folder:{root}", image_size=16),
        model=ModelSettings(name="mu"), epochs={epochs}, patience=None, warmup_epochs=0,
        batch_size=29,
    )
    rates = (1e-3, 1e9)
    return Study(
        tuple(
            Condition({{"rate": rate}}, replace(base, optimizer=replace(base.optimizer, lr=rate)))
            for rate in rates
        ),
        num_seeds=1, settings={{"measure": {{"num_images": 5}}}},
    )
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    write_coloured_folder(root)
    path = tmp_path / "rates.py"
    path.write_text(RECIPE.format(root=root, epochs=40))
    return path


def test_a_killed_runner_takes_its_workers_along_and_the_next_one_ends_as_if_nothing_was(
    file: Path, tmp_path: Path
):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "nearsight", "study", "run", str(file), "--workers", "2"]
    command += ["--out", str(out), "--data-root", str(tmp_path)]
    runner = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    good, bad = plan_cells(read_recipe(file), data_root=tmp_path).cells
    log = cell_folder(out, good) / LOG
    _wait(lambda: log.is_file() and len(log.read_text().splitlines()) > 2)
    assert state_of(cell_folder(out, good)) == "running"
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    _wait(lambda: state_of(cell_folder(out, good)) != "running")
    assert state_of(cell_folder(out, good)) == "stopped"
    left = run_study(read_recipe(file), out, workers=2, data_root=tmp_path)
    assert [cell.key for cell in left] == [bad.key]
    assert "the loss became" in (failure(cell_folder(out, bad)) or "")
    assert "Traceback" in (cell_folder(out, bad) / WORKER_LOG).read_text()
    whole = train_run(good.protocol, tmp_path / "whole", seed=0, device="cpu", data_root=tmp_path)
    for name in (WEIGHTS, LOG):
        assert (cell_folder(out, good) / name).read_bytes() == (whole / name).read_bytes()
    assert read_measure(cell_folder(out, good)).num_images == 5
    before = (cell_folder(out, good) / WORKER_LOG).stat().st_mtime_ns
    run_study(read_recipe(file), out, workers=2, data_root=tmp_path)  # nothing is run twice
    assert (cell_folder(out, good) / WORKER_LOG).stat().st_mtime_ns == before
    shown = CliRunner().invoke(app, ["study", "status", str(out)])
    assert "2 cells, 1 finished, 1 failed" in shown.output
    assert [cell.seed for cell in read_cells(out)] == [0, 0]


def _wait(until, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_listing_and_planning_need_no_run(file: Path, tmp_path: Path):
    shown = CliRunner().invoke(app, ["study", "list", "--recipes", str(file.parent)])
    assert "2 conditions x 1 seeds = 2 cells" in shown.output
    assert "Expected: the rate of 1e9 fails" in shown.output
    plan = plan_cells(read_recipe(file), seeds=range(3), data_root=tmp_path)
    assert len(plan.todo) == 6
    assert not (tmp_path / "out").exists()


def test_cells_are_not_copied_into_a_study_that_another_runner_is_at_work_on(
    file: Path, tmp_path: Path
):
    out, other, recipe = tmp_path / "out", tmp_path / "other", read_recipe(file)
    cells = plan_cells(recipe, data_root=tmp_path).cells
    for folder, status in ((out, "running"), (other, FINISHED)):
        write_study(folder, recipe.name, cells)
        run = run_contents(status=status) | ({} if status == FINISHED else {"result": None})
        write_json(cell_folder(folder, cells[0]) / RECORD, run)
    write_json(cell_folder(other, cells[0]) / MEASURE, {"schema_version": 1})
    assert state_of(cell_folder(other, cells[0])) == "finished"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with (
        hold_lock(out / RUNNER_LOCK, "runner"),
        pytest.raises(UserError, match="another runner"),
    ):
        run_study(recipe, out, data_root=tmp_path, reuse_from=other)
    (out / RUNNER_LOCK).unlink()
    after = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert after == before
    assert state_of(cell_folder(out, cells[0])) == "stopped"


def test_a_worker_whose_runner_ended_before_it_was_loaded_ends_too(file: Path, tmp_path: Path):
    out, recipe = tmp_path / "out", read_recipe(file)
    cells = plan_cells(recipe, data_root=tmp_path).cells
    write_study(out, recipe.name, cells)
    folder = cell_folder(out, cells[0])
    runner = (
        "from pathlib import Path; from nearsight.study.engines.base import start_worker; import os"
        f"; print(start_worker(Path({str(folder)!r}), Path({str(tmp_path)!r})).pid, flush=True)"
        "; os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", runner], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    worker = int(done.stdout)
    try:
        _wait(lambda: not _is_at_work(worker), 60.0)
        assert state_of(folder) in ("waiting", "stopped")
        assert not (folder / WEIGHTS).exists()
    finally:
        if _is_at_work(worker):
            os.kill(worker, signal.SIGKILL)


def _is_at_work(process: int) -> bool:
    """Whether a process that is not our child is there; one that ended may wait for its parent."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
