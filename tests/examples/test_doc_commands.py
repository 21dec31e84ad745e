"""Every command and every call in the documentation is understood; the quick commands run."""

from __future__ import annotations

import ast
import glob
import importlib
import inspect
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from made_data import write_image
from study.example_folders import a_study

import nearsight as ns
from nearsight.cli.app import app
from nearsight.demo.bundle import copy_models

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("*/README.md"),
    )
    if path.name not in ("api.md", "experiment-log.md")  # generated; commands of older versions
]
LONG = {  # commands that no test runs, and why
    "train": "trains for minutes or days",
    "study run": "trains several models",
    "demo": "trains a model; tests/demo runs it",
    "localise": "needs VOC 2012 and an hour",
    "evaluate": "needs VOC 2012 or CIFAR-100",
    "study causal": "takes minutes",
    "study plan": "reads the data sets of the recipe; tests/study/design plans small studies",
    "study report": "draws every figure; tests/study/show runs it",
    "study export OUT": "a folder to fill in; the export of the quick study runs",
    "data fetch": "downloads",
    "data check cifar100": "needs CIFAR-100",
    "data import": "needs an archive of CIFAR-100",
    "data register": "needs a data set",
    "explore --serve": "does not end",
    "measure timm/": "downloads",
    "measure hf/": "downloads",
    "measure torchvision/": "takes a minute; tests/measure/layout measures a small one",
}
Answer = tuple[int, str, str]


def blocks(page: Path, language: str) -> Iterator[str]:
    """The fenced blocks of a page in a language; shell has none."""
    text = page.read_text()
    for found, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        if found == language:
            yield block


def commands(page: Path) -> list[str]:
    """The nearsight commands of a page, without comments and with their lines joined."""
    lines = "\n".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    words = [command.strip() for x in lines for command in re.sub(r"(^| )#.*", "", x).split("&&")]
    return [" ".join(x.split()) for x in words if x.startswith(("nearsight ", "torchrun "))]


CASES = sorted({command for page in PAGES for command in commands(page)})


def is_long(command: str) -> bool:
    """Tell whether a command is one that no test runs."""
    words = command.removeprefix("nearsight ")
    if command.startswith("torchrun "):
        return True
    return any(words.startswith(start) for start in LONG) or "--serve" in words


def test_the_pages_have_commands_of_every_group() -> None:
    assert len(CASES) > 50
    groups = {command.split()[1] for command in CASES}
    assert {"train", "measure", "report", "study", "data", "explore", "maps"} <= groups


@pytest.mark.parametrize("command", CASES)
def test_every_command_of_the_docs_is_understood(command: str) -> None:
    group = typer.main.get_command(app)
    words = shlex.split(command.partition(" > ")[0].partition("nearsight ")[2])
    while hasattr(group, "commands"):
        group = group.commands[words.pop(0)]
    group.make_context("nearsight", words)  # raises where an option or argument is wrong


@pytest.mark.slow
def test_the_quick_commands_of_the_docs_run(
    nearsight: Callable[..., Answer], tmp_path: Path
) -> None:
    plain, convit, *others = copy_models(tmp_path / "bundled")
    for model, names in ((plain, "baseline-0 a"), (others[0], "modern-0 b")):
        assert nearsight("measure", str(model), "--num-images", "3")[0] == 0
        for name in names.split():
            shutil.copytree(model, tmp_path / "runs" / name)
    shutil.copytree(convit, tmp_path / "runs" / "convit-0")
    a_study(tmp_path / "studies-out" / "quick")
    for name in ("DIR/a.png", "DIR/b.png", "DIR/c.png", "bus.jpg", "cat.png", "FILE"):
        write_image(tmp_path / "image.png", (40, 40))
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(tmp_path / "image.png", tmp_path / name)
    quick = [command for command in CASES if not is_long(command)]
    quick.sort(key=lambda command: not command.startswith("nearsight measure "))  # others read them
    assert len(quick) >= 20
    for command in quick:
        words = shlex.split(on_small_models(command).partition(" > ")[0])[1:]
        found = [sorted(glob.glob(word)) if "*" in word else [word] for word in words]
        code, _, err = nearsight(*(word for each in found for word in each))
        assert (code, command) == (0, command), err


def on_small_models(command: str) -> str:
    """The command with small random models instead of published ones, and few images."""
    for name in ("vit_tiny_patch16_224", "deit_tiny", "convit_tiny"):
        command = command.replace(f" {name} ", " nano --random-init ", 1)
    command = command.replace(" deit_tiny_patch16_224 ", " nano_prr --random-init ", 1)
    command = re.sub(r" locatvit_tiny ", " nano_locat ", command)
    command = re.sub(r" --weights \S+", "", command)
    command = command.replace("--num-images 100", "--num-images 2").replace("4,9", "4,8")
    return f"{command} --num-images 3" if command.startswith("nearsight measure ") else command


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_call_of_nearsight_in_the_docs_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ns":
                assert hasattr(ns, node.attr), ast.unparse(node)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nearsight"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, each.name) for each in node.names), ast.unparse(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("ns."):
                function = getattr(ns, ast.unparse(node.func).removeprefix("ns."), None)
                if inspect.isfunction(function):
                    names = {keyword.arg: None for keyword in node.keywords if keyword.arg}
                    inspect.signature(function).bind_partial(*node.args, **names)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_the_docs_name_exists(page: Path) -> None:
    for name in re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|c|h|json|toml|sh))`", page.read_text()):
        if "NAME" in name or re.search(r"\b(GROUP|PATH|DIR|OUT|path|runs|my)\b", name):
            continue  # a name to fill in, or a file that a command writes
        assert any((root / name).exists() for root in (ROOT, ROOT / "nearsight", page.parent)), name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_table_that_the_docs_place_in_a_file_is_there(page: Path) -> None:
    for name, file in re.findall(r"`(\w+)` (?:in|of)\s+`([\w/]+/\w+\.py)`", page.read_text()):
        if "NAME" in file:
            continue  # the module to write
        (path,) = (path for path in (ROOT / file, ROOT / "nearsight" / file) if path.exists())
        assert re.search(rf"^(?:def |class )?{name}\b", path.read_text(), re.MULTILINE), (
            name,
            file,
        )


def test_the_pages_on_adding_name_their_tables() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text() + "".join(
        page.read_text() for page in (ROOT / "docs" / "add").glob("*.md")
    )
    assert len(re.findall(r"`\w+` (?:in|of)\s+`[\w/]+/\w+\.py`", text)) >= 15


@pytest.mark.parametrize("start", LONG)
def test_a_reason_not_to_run_belongs_to_a_command(start: str) -> None:
    assert any(
        command.removeprefix("nearsight ").startswith(start) or start in command
        for command in CASES
    )
