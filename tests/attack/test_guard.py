"""The attack notices what it is there to notice."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from attack.attack import Attack, attacked
from attack.guard import guarded
from attack.inputs.weights import Payload
from attack.verdicts import (
    ACCEPTED,
    HANG,
    REFUSED,
    TRACEBACK,
    Hang,
    time_limit,
    verdict_of,
)
from hypothesis import strategies as some

from nearsight.core import UserError


def test_a_file_outside_the_folder_a_program_and_code_are_seen(tmp_path: Path):
    (tmp_path / "in").mkdir()
    with guarded(tmp_path / "in") as seen:
        (tmp_path / "in" / "a").write_text("fine")
        (tmp_path / "out").write_text("not fine")
        os.rename(tmp_path / "in" / "a", tmp_path / "b")
        subprocess.run([sys.executable, "-c", ""], check=True)
        pickle.loads(pickle.dumps(Payload("exec")))
    assert seen.outside == [str(tmp_path / "out"), str(tmp_path / "b")]
    assert [x.split()[0] for x in seen.started] == ["subprocess.Popen", "code"]


def test_a_tracebacks_a_refusal_and_a_hang_are_told_apart():
    def fails(error: BaseException):
        raise error

    def spins() -> None:
        while True:
            pass

    assert verdict_of(lambda: 3).what == ACCEPTED
    assert verdict_of(lambda: fails(UserError("x is wrong; do y"))).what == REFUSED
    assert verdict_of(lambda: fails(OSError(28, "No space left", "f"))).what == REFUSED
    assert verdict_of(lambda: fails(KeyError("x"))).what == TRACEBACK
    assert verdict_of(lambda: fails(UserError("x " * 10**5))).what == TRACEBACK
    with time_limit(0.05):
        assert verdict_of(spins).what == HANG
    with pytest.raises(Hang), time_limit(0.05):
        spins()


def test_an_attempt_works_in_a_folder_of_its_own_that_is_removed(tmp_path: Path):
    def attempt(case: str, place: Path):
        Path("here").write_text(case)
        return verdict_of(lambda: (place / "here").read_text())

    found = attacked(Attack("x", some.text(), attempt), "a", tmp_path)
    assert (found.verdict.value, found.outside, found.started) == ("a", (), ())
    assert list(tmp_path.iterdir()) == []
