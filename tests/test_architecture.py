"""The tree keeps its promises: imports go one way, torch is imported late, README lists it all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearsight.study.design.recipe import FOLDER, INSTALLED

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "nearsight"
MODULES = sorted(PACKAGE.rglob("*.py"))

CLI = ("cli", "cli_data", "cli_maps", "cli_models", "cli_study")
# A part may import parts of its own rank and below. train may import measure, never the reverse.
RANKS: tuple[set[str], ...] = (
    {"native"},
    {"disk", "models", "data", "protocol"},
    {"run", "progress"},
    {"measure", "evaluate"},
    {"train"},
    {"study", "report", "explore", "__init__", "__main__", *CLI},
)
NO_TORCH = {"torch", "torchvision", "timm"}


def rank(part: str) -> int:
    found = [number for number, parts in enumerate(RANKS) if part in parts]
    assert found, f"{part} has no place in the direction of imports: give it one in RANKS"
    return found[0]


def imported(source: str) -> Iterator[str]:
    """Dotted names of all imports, those inside functions too; relative ones start with a dot."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def wrong_imports(part: str, source: str) -> list[str]:
    """The imports that a part of the package may not have."""
    own = rank(part)
    wrong = [name for name in imported(source) if name.startswith(".")]
    for name in imported(source):
        package, _, rest = name.partition(".")
        target = rest.split(".")[0]
        is_part = any(target in parts for parts in RANKS)  # else a name like __version__
        if package == "nearsight" and is_part and rank(target) > own:
            wrong.append(name)
        if package in NO_TORCH and part in ("report", "protocol"):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_nothing_from_above(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert wrong_imports(part, path.read_text()) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("measure", "from nearsight.train.loop import train_run"),
        ("evaluate", "def late():\n    import nearsight.core.processes"),
        ("models", "from nearsight import run"),
        ("data", "from nearsight.measure.metrics.entropy import attention_entropy"),
        ("train", "from nearsight.report.write.page import write_report"),
        ("report", "import torch.nn as nn"),
        ("data", "from ..train import loop"),
    ],
)
def test_a_wrong_import_is_found(part: str, source: str) -> None:
    assert len(wrong_imports(part, source)) == 1


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("train", "from nearsight.measure.profile.profile import measure_model"),
        ("report", "from nearsight.runs.folder import read_record"),
        ("train", "import nearsight"),
        ("report", "from nearsight import __version__"),
    ],
)
def test_a_right_import_is_left_alone(part: str, source: str) -> None:
    assert wrong_imports(part, source) == []


def test_a_new_part_must_be_given_its_place() -> None:
    with pytest.raises(AssertionError, match="extra has no place"):
        wrong_imports("extra", "x = 1")


def names_without_torch() -> list[str]:
    free = [PACKAGE / f"{name}.py" for name in ("__init__", *CLI, "run")]
    free += [path for path in MODULES if path.parent.name in ("protocol", "report", "figures")]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in free)
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize(
    "statement",
    [
        f"import {', '.join(names_without_torch())}",
        "sys.argv = ['nearsight', '--help']; from nearsight.cli.app import main; main()",
    ],
    ids=["import", "help"],
)
def test_torch_stays_out_until_it_is_needed(statement: str) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded:', sorted({NO_TORCH!r} & set(sys.modules))))\n"
        f"{statement}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_the_readme_has_a_line_for_every_module() -> None:
    tree = (ROOT / "README.md").read_text().split("## The tree")[1].split("```")[1]
    listed, folders = set(), [ROOT]
    for line in tree.splitlines():
        if entry := re.match(r"( *)([\w.+-]+)(/?)(?:  |$)", line):
            folders = folders[: 1 + len(entry[1]) // 2]
            listed.add(folders[-1] / entry[2])
            folders += [folders[-1] / entry[2]] if entry[3] else []
    modules = {path for path in MODULES if path.read_text().strip() and path.stem != "__init__"}
    assert sorted(modules - listed) == []
    assert sorted(path for path in listed if not path.exists()) == []


def test_a_wheel_has_every_package_and_the_recipes() -> None:
    """setuptools takes a list here, since the recipes come from another folder than their name."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in MODULES}
    names = [".".join(folder.parts) for folder in folders]
    recipes = ".".join(INSTALLED.relative_to(ROOT).parts)
    assert sorted(found["packages"]) == sorted([*names, recipes])
    assert found["package-dir"] == {recipes: "studies"}
    assert FOLDER == ROOT / "studies"  # there is no second copy in the repository
