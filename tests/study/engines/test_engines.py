"""Engines: the same bytes from all of them, and what becomes of cells whose workers are lost."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_data import write_coloured_folder
from study.made_study import EPOCHS, disturb, made_recipe, worker_of, written_cells

from nearsight.runs.files import LOG, RECORD, WEIGHTS, read_log, read_record
from nearsight.study.engines.base import EngineOptions
from nearsight.study.engines.opening import open_engine
from nearsight.study.folder import cell_folder, failure, write_study
from nearsight.study.run.cell import run_cell
from nearsight.study.run.runner import plan_cells, run_study
from nearsight.study.run.scheduler import run_cells
from nearsight.study.run.watcher import Watcher
from nearsight.train.loop import train_run

pytestmark = [pytest.mark.cluster, pytest.mark.training]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_coloured_folder(tmp_path / "images")
    return tmp_path / "images"


def test_options_of_one_engine_are_refused_by_another():
    with pytest.raises(ValueError, match=r"--address .* slurm"):
        EngineOptions("slurm", address="auto")
    with pytest.raises(ValueError, match=r"--gpus-per-cell .* local"):
        EngineOptions("local", gpus_per_cell=0.5)
    with pytest.raises(ValueError, match=r"--slurm .* ray"):
        EngineOptions("ray", slurm={"timeout_min": 3})


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_an_engine_whose_extra_is_missing_says_how_to_install_it(
    name, package, monkeypatch, tmp_path: Path
):
    monkeypatch.delitem(sys.modules, f"nearsight.study.engines.{name}_engine", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"pip install '\.\[{name}\]'"):
        open_engine(EngineOptions(name), tmp_path, tmp_path, [], None)


def test_ray_gives_the_bytes_of_local_workers_though_a_ray_worker_is_killed(
    root: Path, tmp_path: Path, capsys
):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from nearsight.study.engines.ray_engine import RayEngine

    recipe, data_root = made_recipe(root, num_seeds=2), tmp_path
    assert run_study(recipe, tmp_path / "local", workers=2, data_root=data_root) == []
    out = tmp_path / "ray"
    cells = written_cells(root, out, num_seeds=2)
    engine = RayEngine(EngineOptions("ray"), data_root, cells, workers=2)
    try:
        assert engine.room() == 2
        thread = disturb(cell_folder(out, cells[0]), signal.SIGKILL, parent=True)
        results = run_cells(out, cells, engine, 2, False, Watcher())
        thread.join()
        assert sorted(results.finished) == sorted(cell.key for cell in cells)
        assert "WorkerCrashedError" in capsys.readouterr().err
        for cell in cells:
            for name in (WEIGHTS, LOG):
                local, by_ray = (cell_folder(x, cell) / name for x in (tmp_path / "local", out))
                assert local.read_bytes() == by_ray.read_bytes()
        with pytest.raises(ValueError, match=r"needs 0\.5 GPU.* has 0"):
            RayEngine(EngineOptions("ray", gpus_per_cell=0.5), data_root, cells, None)
        nowhere = engine.start(cells[0], tmp_path / "nowhere")
        nowhere.wait()
        assert "put the study folder on a file system that all nodes share" in (
            nowhere.ended().failed or ""
        )
    finally:
        engine.close()


def test_a_slurm_job_that_is_preempted_is_queued_again_and_ends_with_the_same_bytes(
    root: Path, tmp_path: Path
):
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    from nearsight.study.engines.slurm_engine import JOB, SlurmEngine

    out = tmp_path / "slurm"
    (cell,) = written_cells(root, out)
    options = EngineOptions("slurm", slurm={"timeout_min": 30})
    engine = SlurmEngine(options, out, tmp_path, [cell], cluster="local")
    thread = disturb(cell_folder(out, cell), signal.SIGUSR2, parent=True)
    results = run_cells(out, [cell], engine, 1, False, Watcher())
    thread.join()
    assert results.finished == [cell.key]
    whole = train_run(cell.protocol, tmp_path / "whole", device="cpu", data_root=tmp_path)
    for name in (WEIGHTS, LOG):
        assert (cell_folder(out, cell) / name).read_bytes() == (whole / name).read_bytes()
    logs = "".join(path.read_text() for path in (out / "slurm").rglob("*.err"))
    assert "this job is preempted" in logs
    assert not (cell_folder(out, cell) / JOB).exists()


def test_slurm_is_told_what_a_cell_needs_and_the_job_of_a_dead_runner_is_cancelled(
    root: Path, tmp_path: Path, monkeypatch
):
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    from nearsight.study.engines.slurm_engine import SlurmEngine

    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in {
        "sbatch": 'cp "$1" sent.sh; echo Submitted batch job 211', "srun": "true",
        "scancel": 'echo "$@" >> cancelled.txt', "sacct": "true",
    }.items():  # fmt: skip
        (commands / name).write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    (cell,) = written_cells(root, tmp_path / "out", processes=3)
    folder = cell_folder(tmp_path / "out", cell)
    given = {"slurm_partition": "small", "timeout_min": 17}
    options = EngineOptions("slurm", gpus_per_cell=2, slurm=given)
    engine = SlurmEngine(options, tmp_path / "out", tmp_path, [cell])
    engine.start(cell, folder)
    sent = (tmp_path / "sent.sh").read_text()
    for wanted in ("cpus-per-task=3", "gpus-per-node=2", "partition=small", "time=17"):
        assert f"#SBATCH --{wanted}\n" in sent
    assert not (tmp_path / "cancelled.txt").exists()
    engine.start(cell, folder)
    assert (tmp_path / "cancelled.txt").read_text() == "211\n"
    with pytest.raises(ValueError, match=r"--gpus-per-cell is 0\.5"):
        SlurmEngine(EngineOptions("slurm", gpus_per_cell=0.5), tmp_path, tmp_path, [cell])
    with pytest.raises(ValueError, match="submitit rejects a parameter"):
        SlurmEngine(EngineOptions("slurm", slurm={"colour": 3}), tmp_path, tmp_path, [cell])


def test_a_cell_of_two_processes_survives_its_killed_worker_and_tells_why_a_rank_failed(
    root: Path, tmp_path: Path
):
    out, recipe = tmp_path / "out", made_recipe(root, rates=(1e-3, 1e9), processes=2)
    good, bad = plan_cells(recipe, data_root=tmp_path).cells
    alone = plan_cells(made_recipe(root, rates=(1e-3,)), data_root=tmp_path).cells[0]
    assert good.key != alone.key
    thread = disturb(cell_folder(out, good), signal.SIGKILL, parent=False)
    left = run_study(recipe, out, workers=2, data_root=tmp_path)
    thread.join()
    assert [cell.key for cell in left] == [bad.key]
    assert "the loss became" in (failure(cell_folder(out, bad)) or "")
    assert read_record(cell_folder(out, good)).provenance.hardware["processes"] == 2
    assert [x.epoch for x in read_log(cell_folder(out, good))] == [*range(1, EPOCHS + 1)]
    assert worker_of(cell_folder(out, good)) is None


@pytest.mark.parametrize(
    ("planned_software", "sentence"),
    [
        ({"torch": "2.0.0"}, r"torch 2\.0\.0 \(here"),
        ({"timm": "0.1"}, r"timm 0\.1 \(here"),
        ({"numbers": 1}, r"nearsight's numbers 1 \(here 3\)"),
    ],
)
def test_a_worker_refuses_other_software_than_the_plan_has(
    root: Path, tmp_path: Path, planned_software, sentence
):
    (cell,) = written_cells(root, tmp_path / "out")
    other = replace(cell, software=replace(cell.software, **planned_software))
    write_study(tmp_path / "out", "rates", [other])
    folder = cell_folder(tmp_path / "out", other)
    with pytest.raises(ValueError, match=sentence):
        run_cell(folder, tmp_path)
    assert not (folder / RECORD).exists()


def test_a_worker_without_the_compiled_kernel_refuses_a_cell_planned_with_it(
    root: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("nearsight.native.load_library", object)
    (cell,) = written_cells(root, tmp_path / "out")
    assert cell.software.kernel
    monkeypatch.setattr("nearsight.native.load_library", lambda: None)
    folder = cell_folder(tmp_path / "out", cell)
    with pytest.raises(ValueError, match=r"compiled kernel: yes \(here no\)"):
        run_cell(folder, tmp_path)
    assert not (folder / RECORD).exists()
    (without,) = written_cells(root, tmp_path / "other")
    assert without.key != cell.key
