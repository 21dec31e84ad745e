"""The commands of the README: the short ones run, the long ones are at least understood."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from made_data import write_image

import nearsight as ns
from nearsight.cli.app import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(python)?\n(.*?)```", TEXT, flags=re.DOTALL)
SHELL = [
    command.strip()
    for kind, block in BLOCKS
    if not kind
    for line in block.splitlines()
    for command in line.partition("#")[0].split("&&")
    if command.strip().startswith("nearsight ")
]
LONG = (
    "train",
    "study run",
    "study report",
    "study claims",
    "report",
    "measure runs",
    "measure hf",
)
Answer = tuple[int, str, str]


def is_long(command: str) -> bool:
    """Trained for minutes, or of a run or network that a test does not have."""
    return command.startswith(tuple(f"nearsight {word}" for word in LONG))


@pytest.mark.parametrize("command", SHELL)
def test_every_command_is_understood(command: str) -> None:
    group = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while hasattr(group, "commands"):
        group = group.commands[words.pop(0)]
    group.make_context("nearsight", words)  # raises where an option or argument is wrong


@pytest.mark.slow
def test_short_commands_run_in_their_order(nearsight: Callable[..., Answer]) -> None:
    from safetensors.torch import save_file

    for number in range(2):
        write_image(Path("DIR") / f"{number}.png", (40, 40), seed=number)
    save_file(ns.create_model("vit_tiny_patch16_224").state_dict(), "FILE")
    write_image(Path("image.png"), (40, 40))
    short = [command for command in SHELL if not is_long(command)]
    assert len(short) >= 4
    for command in short:
        words = shlex.split(command.replace("--image FILE", "--image image.png"))[1:]
        code, _, err = nearsight(*words)
        assert (code, command) == (0, command), err


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"ns": ns, "model": ns.create_model("mu"), "images": torch.randn(3, 3, 32, 32)}
    code = [block for kind, block in BLOCKS if kind]
    assert len(code) == 2
    for block in code:
        exec(block, names)
    assert (tmp_path / "report.html").is_file()


def test_every_training_command_stands_below_its_time() -> None:
    for section in re.split(r"\n(?=\*\*\d\. )", TEXT)[1:]:
        if "nearsight train" in section or "study run" in section:
            assert re.search(r"\d (to \d )?(minutes|seconds)", section.partition("```")[0])


def test_links_and_pictures_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", TEXT):
        assert (ROOT / target).exists(), target
