"""Locks: one holder at a time, freed by the death of the holder, and asked for without harm."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearsight.core.errors import UserError
from nearsight.core.locks import hold_lock, is_locked

HOLDER = """
import sys
from pathlib import Path
from nearsight.core.locks import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_and_told_who_is_at_work(tmp_path: Path) -> None:
    with (
        hold_lock(tmp_path / "lock", "runner"),
        pytest.raises(UserError, match=rf"\brunner\b.*{tmp_path}"),
        hold_lock(tmp_path / "lock", "runner"),
    ):
        pass
    with hold_lock(tmp_path / "lock", "runner"):
        assert is_locked(tmp_path / "lock")


@pytest.mark.processes
def test_a_lock_dies_with_the_process_that_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(lock)
        holder.kill()
        holder.wait()
        assert lock.is_file()
        assert not is_locked(lock)
        with hold_lock(lock, "worker"):
            pass


@pytest.mark.slow
def test_those_who_ask_at_once_do_not_take_each_other_for_a_holder(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    with ThreadPoolExecutor(7) as threads:
        assert not any(threads.map(is_locked, [lock] * 700))


def test_asking_for_a_lock_that_nobody_took_creates_no_file(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_not_kept_leaves_no_file_also_after_an_error(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "lock", "download", keep=False):
        assert (tmp_path / "lock").is_file()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path / "lock", keep=False):
        print(1 / 0)
    assert list(tmp_path.iterdir()) == []
