"""The loop over cells: lost workers are started again, failed cells are left with their reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_data import write_coloured_folder
from made_study import written_cells

from nearsight.run import MEASURE, RECORD, write_json
from nearsight.study.engines import Ending, Engine, ending_of
from nearsight.study.folder import cell_folder, failure, state_of
from nearsight.study.loop import MOST_LOSSES, run_cells
from nearsight.study.plan import Cell
from nearsight.study.progress import Watcher


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
            write_json(folder / RECORD, {"schema_version": 1, "status": "finished"})
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


def test_a_lost_worker_is_started_again_before_the_others_and_not_for_ever(
    root: Path, tmp_path: Path
):
    out = tmp_path / "out"
    first, second, third = written_cells(root, out, num_seeds=3)
    gone = Ending(lost="SIGKILL")
    engine: Engine = Scripted(
        {first.key: [gone, None], second.key: [gone] * MOST_LOSSES, third.key: [None]}
    )
    results = run_cells(out, [first, second, third], engine, 1, False, Watcher(1))
    assert engine.started == [first.key] * 2 + [second.key] * MOST_LOSSES + [third.key]
    assert results.finished == [first.key, third.key]
    assert results.failed == [second.key]
    reason = failure(cell_folder(out, second))
    assert reason == f"its worker ended {MOST_LOSSES} times by SIGKILL; out of memory?"
    assert state_of(cell_folder(out, third)) == "finished"


def test_a_failed_cell_is_not_started_again_unless_asked(root: Path, tmp_path: Path):
    out = tmp_path / "out"
    (cell,) = written_cells(root, out)
    failing = ending_of(7)
    first: Engine = Scripted({cell.key: [failing]})
    assert run_cells(out, [cell], first, 1, False, Watcher(1)).failed == [cell.key]
    assert "exit code 7" in (failure(cell_folder(out, cell)) or "")
    never: Engine = Scripted({})
    assert run_cells(out, [cell], never, 1, False, Watcher(1)).failed == []
    again: Engine = Scripted({cell.key: [None]})
    assert run_cells(out, [cell], again, 1, True, Watcher(1)).finished == [cell.key]
