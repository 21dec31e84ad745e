"""Kills, Ctrl-C and a full disk at writes of commands: the same command ends with the same bytes.

``make attack`` stops the commands at every write.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attack.commands import COMMANDS, Stoppable
from attack.faults import Point, has_strace, run
from attack.stops import Seen, Stopping, can_mount

pytestmark = [pytest.mark.training, pytest.mark.processes]
QUICK = [x for x in COMMANDS if x.name != "study run"]  # whose workers load torch anew


def spread(points: tuple[Point, ...], number: int) -> list[Point]:
    """Return points from the first to the last."""
    return [points[i * (len(points) - 1) // (number - 1)] for i in range(number)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", QUICK, ids=lambda x: x.name.replace(" ", "-"))
def test_a_stopped_command_ends_with_the_same_bytes(command: Stoppable, tmp_path: Path):
    stopping = Stopping(command, tmp_path, traced=False).learn()
    assert len(stopping.points) >= 5
    first, middle, last = spread(stopping.points, 3)
    assert stopping.stopped("kill", middle) == Seen([], 1)
    if command.name == "report":  # each takes seconds
        return
    assert stopping.stopped("kill", middle, last).wrong == []
    assert stopping.stopped("interrupt", middle) == Seen([], 1)
    assert stopping.stopped("full", first) == Seen([], 1)


@pytest.mark.skipif(not has_strace(), reason="needs strace")
def test_strace_counts_and_kills_at_system_calls_of_compiled_code(tmp_path: Path):
    (place := tmp_path / "place").mkdir()

    def writes() -> int:
        with (place / "a").open("wb", buffering=0) as file:
            for number in range(5):
                file.write(b"%d" % number)
        return 0

    ending = run(writes, place, traced=True)
    assert (ending.code, [x for x in ending.points if x.call == "write"][-1].number) == (0, 5)
    killed = run(writes, place, "kill", Point("write", 3), traced=True)
    assert (killed.code, killed.hit) == (-9, True)
    assert (place / "a").read_bytes() == b"01"
    whole = run(writes, place, "kill", Point("write", 6), traced=True)
    assert (whole.code, whole.hit) == (0, False)


@pytest.mark.filterwarnings("ignore")
def test_a_small_disk_keeps_the_old_data_set_or_the_new_one(tmp_path: Path):
    if not can_mount(tmp_path):
        pytest.skip("mounting a small disk needs root")
    (command,) = (x for x in COMMANDS if x.name == "data import")
    stopping = Stopping(command, tmp_path, traced=False).learn()
    assert stopping.without_room(stopping.num_bytes // 4) == Seen([], 1)
