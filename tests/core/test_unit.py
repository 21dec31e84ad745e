"""Files that are written as one unit: a kill at any system call leaves the old or the new ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsight.core.unit import finish_unit, write_unit

OLD = {"a.json": b"old a", "b.bin": b"old b", "only-old.json": b"old c"}
NEW = {"a.json": b"new a", "b.bin": b"new b", "only-old.json": None, "only-new.json": b"new d"}
CALLS = ("open", "mkdir", "fsync", "rename", "replace", "unlink", "rmdir", "write")


def contents(folder: Path) -> dict[str, bytes]:
    return {x.name: x.read_bytes() for x in folder.iterdir() if not x.name.startswith(".")}


def killed_at(number: int, folder: Path) -> bool:
    """Write NEW in a child that is killed at its n-th call; False if it came to its end."""
    child = os.fork()
    if child == 0:
        counted = 0

        def counting(call: Callable) -> Callable:
            def wrapped(*given, **named):
                nonlocal counted
                counted += 1
                if counted == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **named)

            return wrapped

        for name in CALLS:
            setattr(os, name, counting(getattr(os, name)))
        write_unit(folder, "unit", NEW)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.processes
def test_a_kill_at_every_call_leaves_all_old_or_all_new_files(tmp_path: Path):
    new = {name: content for name, content in NEW.items() if content is not None}
    seen = []
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_unit(folder, "unit", OLD)
        killed = killed_at(number, folder)
        finish_unit(folder, "unit")
        found = contents(folder)
        assert found in (OLD, new), number
        seen.append(found == new)
        if not killed:
            break
        write_unit(folder, "unit", NEW)  # nothing that was left is in the way
        assert contents(folder) == new
        assert sorted(x.name for x in folder.iterdir() if x.is_dir()) == []
    assert seen == sorted(seen)  # once it is new, it stays so
    assert (seen[0], seen[-1], len(seen) > 20) == (False, True, True)


def test_a_full_disk_leaves_the_old_files_and_names_the_one_that_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_unit(tmp_path, "unit", OLD)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        write_unit(tmp_path, "unit", NEW)
    assert raised.value.filename == str(tmp_path / "a.json")
    monkeypatch.undo()
    finish_unit(tmp_path, "unit")
    assert contents(tmp_path) == OLD
