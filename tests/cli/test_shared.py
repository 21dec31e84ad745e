"""The options that every command has."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable

import pytest
import torch
import typer

from nearsight.cli.app import app
from nearsight.cli.shared import Result
from nearsight.core import busy

Answer = tuple[int, str, str]


def commands(group: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found += commands(command, (*path, name)) if inner else [(*path, name)]
    return found


EVERY = commands(typer.main.get_command(app))


def test_all_commands_were_found() -> None:
    assert {("train",), ("demo",), ("data", "list"), ("study", "claims")} <= set(EVERY)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_takes_quiet_json_and_threads(path: tuple[str, ...]) -> None:
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    options = {word for each in command.params for word in each.opts}
    assert {"--quiet", "--json", "--threads"} <= options


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_help_of_every_command_has_two_examples_that_parse(
    nearsight: Callable[..., Answer], path: tuple[str, ...]
) -> None:
    code, out, _ = nearsight(*path, "--help")
    lines = [line.strip() for line in out.partition("Examples:\n")[2].splitlines()]
    assert code == 0
    assert len(lines) >= 2
    assert not re.search(r"<\w+|\{\w+\}", out), "a Python type in place of a word"
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        assert words[: 1 + len(path)] == ["nearsight", *path]
        command.make_context(line, words[1 + len(path) :])  # raises on an unknown option


def test_json_is_the_content_and_quiet_is_silent(nearsight: Callable[..., Answer]) -> None:
    code, out, _ = nearsight("data", "list", "--json")
    assert code == 0
    assert "shapes" in [row["name"] for row in json.loads(out)]
    assert nearsight("data", "list", "--quiet")[:2] == (0, "")
    code, out, _ = nearsight("protocols", "modern", "--json")
    assert json.loads(out)["label_smoothing"] == 0.1


def test_json_of_a_command_without_content_is_what_it_prints() -> None:
    assert json.loads(Result().text("one\ntwo\n")) == ["one", "two"]
    written = json.loads(Result(("a.html",), {"n": 3}).text())  # type: ignore[arg-type]
    assert written == {"written": ["a.html"], "result": {"n": 3}}


def test_threads_are_set_and_errors_stay_visible(
    nearsight: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # put back afterwards
    before = torch.get_num_threads()
    try:
        code, out, err = nearsight("measure", "nanoo", "--threads", "3", "--quiet")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert (code, out) == (1, "")
    assert re.match(r"nearsight: .*nano", err)


def test_completion_can_be_installed(nearsight: Callable[..., Answer]) -> None:
    assert "--install-completion" in nearsight("--help")[1]


@pytest.mark.parametrize(
    ("load", "threads", "seconds", "warned"),
    [(7.0, 2, (0.5, 0.01), True), (7.0, 2, (0.01, 0.01), False), (0.1, 2, (0.5, 0.01), False),
     (7.0, 1, (0.5, 0.01), False)],
)  # fmt: skip
def test_slow_threads_are_told_on_a_busy_machine_only(
    monkeypatch: pytest.MonkeyPatch,
    load: float,
    threads: int,
    seconds: tuple[float, float],
    warned: bool,
) -> None:
    times = itertools.cycle(seconds)
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(busy, "_seconds", lambda: next(times))
    found = busy.slow_threads()
    assert ("50 times slower than one; try --threads 1" in found) == warned
    assert bool(found) == warned
