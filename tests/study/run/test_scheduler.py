"""The loop over cells: lost workers are started again, failed cells are left with their reason."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from made_data import write_coloured_folder
from rich.console import Console
from runs.made_records import run_contents
from study.made_study import written_cells

from nearsight.core.locks import hold_lock
from nearsight.runs.files import MEASURE, RECORD, write_json
from nearsight.study.design.plan import Cell
from nearsight.study.engines.base import Ending, Engine, ending_of
from nearsight.study.folder import WORKER_LOCK, cell_folder, failure, state_of
from nearsight.study.run.scheduler import MOST_LOSSES, run_cells
from nearsight.study.run.watcher import Watcher
from nearsight.study.show.study_tables import print_status, status_json


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_coloured_folder(tmp_path / "images")
    return tmp_path / "images"


class Scripted:
    """Jobs that end at once as a script says: an ending per start of a cell."""

    def __init__(self, script: dict[str, list[Ending | None]]) -> None:
        self.script = script  # None: the cell finishes
        self.started: list[str] = []

    def room(self) -> int:
        return 1

    def start(self, cell: Cell, folder: Path):
        ending = self.script[cell.key].pop(0)
        self.started.append(cell.key)
        if ending is None:
            write_json(folder / RECORD, run_contents())
            write_json(folder / MEASURE, {"schema_version": 1})
        return ScriptedJob(ending or Ending())

    def close(self) -> None:
        pass


class ScriptedJob:
    def __init__(self, ending: Ending) -> None:
        self.ending = ending

    def ended(self) -> Ending:
        return self.ending

    def stop(self) -> None:
        pass

    def wait(self) -> None:
        pass


@pytest.mark.slow
def test_a_lost_worker_is_started_again_before_the_others_and_not_for_ever(
    root: Path, tmp_path: Path
):
    out = tmp_path / "out"
    first, second, third = written_cells(root, out, num_seeds=3)
    gone = Ending(lost="SIGKILL")
    engine: Engine = Scripted(
        {first.key: [gone, None], second.key: [gone] * MOST_LOSSES, third.key: [None]}
    )
    results = run_cells(out, [first, second, third], engine, 1, False, Watcher())
    assert engine.started == [first.key] * 2 + [second.key] * MOST_LOSSES + [third.key]
    assert results.finished == [first.key, third.key]
    assert results.failed == [second.key]
    reason = failure(cell_folder(out, second))
    assert reason == f"its worker ended {MOST_LOSSES} times by SIGKILL; memory may be short"
    assert state_of(cell_folder(out, third)) == "finished"


def test_a_failed_cell_is_not_started_again_unless_asked(root: Path, tmp_path: Path):
    out = tmp_path / "out"
    (cell,) = written_cells(root, out)
    failing = ending_of(7)
    first: Engine = Scripted({cell.key: [failing]})
    assert run_cells(out, [cell], first, 1, False, Watcher()).failed == [cell.key]
    assert "exit code 7" in (failure(cell_folder(out, cell)) or "")
    never: Engine = Scripted({})
    assert run_cells(out, [cell], never, 1, False, Watcher()).failed == []
    again: Engine = Scripted({cell.key: [None]})
    assert run_cells(out, [cell], again, 1, True, Watcher()).finished == [cell.key]


class Queue:
    """An engine with a queue: the first cell is at work from its third look on, then finishes."""

    def __init__(self, seen: list[str]) -> None:
        self.seen, self.jobs = seen, 0

    def room(self) -> int:
        return 2

    def start(self, cell: Cell, folder: Path):
        self.jobs += 1
        return QueuedJob(folder, self.seen, first=self.jobs == 1)

    def close(self) -> None:
        pass


class QueuedJob(ScriptedJob):
    def __init__(self, folder: Path, seen: list[str], first: bool) -> None:
        self.folder, self.seen, self.first, self.looks = folder, seen, first, 0
        self.lock = hold_lock(folder / WORKER_LOCK, "worker")

    def ended(self) -> Ending | None:
        if self.first:
            self.seen.append(state_of(self.folder))
        self.looks += 1
        if self.looks == 3 * self.first:
            self.lock.__enter__()
        if self.looks < 6:
            return None
        if self.first:
            self.lock.__exit__(None, None, None)
        write_json(self.folder / RECORD, run_contents())
        write_json(self.folder / MEASURE, {"schema_version": 1})
        return Ending()


def test_a_cell_is_queued_until_its_worker_holds_it(
    root: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setattr("nearsight.study.run.watcher.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("nearsight.study.run.scheduler.POLL_SECONDS", 0.0)
    out, seen = tmp_path / "out", []
    first, second = written_cells(root, out, num_seeds=2)
    engine: Engine = Queue(seen)
    run_cells(out, [first, second], engine, 2, False, Watcher())
    assert seen == ["queued"] * 3 + ["running"] * 3
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"queued    {first.label}", f"queued    {second.label}", f"started   {first.label}",
        f"finished  {first.label} (1 of 2)", f"finished  {second.label} (2 of 2)",
    ]  # fmt: skip
    assert not list(out.rglob("queued"))


def test_the_live_table_and_the_status_tell_queued_cells_from_those_at_work(
    root: Path, tmp_path: Path, capsys
):
    out = tmp_path / "out"
    cells = written_cells(root, out, num_seeds=3)
    screen = Console(force_terminal=True, width=80, record=True, file=io.StringIO())
    watcher = Watcher(screen)
    watcher.begin(out, cells)
    for cell in cells[:2]:
        (cell_folder(out, cell) / "queued").touch()
    with (
        hold_lock(out / "queue.lock", "runner"),
        hold_lock(cell_folder(out, cells[1]) / WORKER_LOCK, "w"),
    ):
        watcher.look(cells[:2])
        print_status(out)
        states = [(cell["key"], cell["state"]) for cell in status_json(out)]
    watcher.end()
    shown = screen.export_text()
    assert "0 of 3 cells finished, 1 queued; the time left is not known yet" in shown
    assert cells[1].label in shown
    assert cells[0].label not in shown
    expected = zip((cell.key for cell in cells), ("queued", "running", "waiting"))
    assert sorted(states) == sorted(expected)
    assert "3 cells, 1 queued, 1 running, 1 waiting." in capsys.readouterr().out
