"""Threads share the jobs of a call, wherever they can be started."""

import subprocess
import sys
import threading

import pytest

from nearsight.native.threads import Helpers


def test_as_many_threads_as_asked_for_call_at_once():
    together = threading.Barrier(3)  # nobody passes before all three are there
    seen = set()

    def call():
        together.wait(timeout=60)
        seen.add(threading.get_ident())
        return 0

    helpers = Helpers()
    assert helpers.call(call, 3) == 0
    assert len(seen) == 3
    assert threading.get_ident() in seen
    together = threading.Barrier(5)
    assert helpers.call(call, 5) == 0  # the pool grows


def test_one_thread_starts_no_other():
    helpers, seen = Helpers(), []
    before = threading.active_count()
    helpers.call(lambda: seen.append(threading.get_ident()) or 0, 1)
    assert seen == [threading.get_ident()]
    assert threading.active_count() == before


def test_the_worst_answer_counts():
    helpers, mine = Helpers(), threading.get_ident()
    together = threading.Barrier(2)

    def call():
        together.wait(timeout=60)
        return 0 if threading.get_ident() == mine else 1

    assert helpers.call(call, 2) == 1


def test_the_calling_thread_does_all_where_no_other_can_be_started(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    jobs, done = iter(range(7)), []
    assert Helpers().call(lambda: done.extend(jobs) or 0, 3) == 0
    assert done == list(range(7))


def test_an_error_in_the_calling_thread_is_not_swallowed():
    def call():
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return 0

    with pytest.raises(KeyboardInterrupt):
        Helpers().call(call, 2)


@pytest.mark.processes
def test_a_forked_process_starts_its_own_threads():
    code = (
        "import os, threading\n"
        "from nearsight.native.threads import HELPERS\n"
        "def call():\n"
        "    together.wait(timeout=60)\n"
        "    return 0\n"
        "together = threading.Barrier(3)\n"
        "assert HELPERS.call(call, 3) == 0\n"
        "together = threading.Barrier(3)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(HELPERS.call(call, 3))\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert HELPERS.call(call, 3) == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
