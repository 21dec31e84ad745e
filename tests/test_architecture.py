"""The tree keeps its promises: rooms, late imports of torch, a wheel that has everything.

The direction of imports is a contract of import-linter (pyproject.toml), part of ``make check``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from setuptools import find_packages

from nearsight.study.design.recipe_file import FOLDER, INSTALLED

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "nearsight"
MODULES = sorted(PACKAGE.rglob("*.py"))
SAME_EVERYWHERE = {"__init__", "__main__", "declaration"}
NO_TORCH = {"torch", "torchvision", "timm"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_room(folder: Path) -> bool:
    """A folder of modules; one that holds rooms as well leaves its own modules public."""
    return folder != PACKAGE and not any(folder.glob("*/__init__.py"))


ROOMS = [name_of(path) for path in MODULES if path.stem == "__init__" and is_room(path.parent)]


def room_of(module: str) -> str | None:
    return next((room for room in ROOMS if module == room or module.startswith(f"{room}.")), None)


def imported_modules(source: str) -> Iterator[str]:
    """The modules named by imports, those inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide which room a name comes from"
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def private_imports(module: str, source: str) -> list[str]:
    """Modules of other rooms that are imported past the room's ``__init__``."""
    return [
        name
        for name in imported_modules(source)
        if (room := room_of(name)) is not None and name != room and room != room_of(module)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_names_of_another_room_come_from_the_room_itself(path: Path) -> None:
    assert private_imports(name_of(path), path.read_text()) == []


def test_an_import_past_a_rooms_front_door_is_found() -> None:
    late = "def late():\n    from nearsight.stats.estimate import Estimate"
    assert private_imports("nearsight.report.read.evidence", late) == ["nearsight.stats.estimate"]
    assert private_imports("nearsight.stats.seeds", late) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_for_and_has_at_most_14_modules(room: str) -> None:
    folder = ROOT.joinpath(*room.split("."))
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert len(list(folder.glob("*.py"))) - 1 <= 14


@pytest.mark.slow
def test_no_two_modules_or_classes_share_a_name() -> None:
    """A name means one thing; ``declaration`` is the same thing of every part."""
    modules = [path.stem for path in MODULES if path.stem not in SAME_EVERYWHERE]
    classes = [
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, number in Counter(modules).items() if number > 1] == []
    assert [name for name, number in Counter(classes).items() if number > 1] == []


@pytest.mark.parametrize(
    "statement",
    [
        "import nearsight, nearsight.cli, nearsight.protocol, nearsight.report.write",
        "sys.argv = ['nearsight', '--help']; from nearsight.cli import main; main()",
    ],
    ids=["import", "help"],
)
@pytest.mark.processes
def test_torch_stays_out_until_it_is_needed(statement: str) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded:', sorted({NO_TORCH!r} & set(sys.modules))))\n"
        f"{statement}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_a_wheel_has_every_package_and_the_recipes() -> None:
    packages = find_packages(str(ROOT), include=["nearsight", "nearsight.*"])
    assert sorted(packages) == sorted({name_of(path.parent / "__init__.py") for path in MODULES})
    recipes = ".".join(INSTALLED.relative_to(ROOT).parts)
    assert f'RECIPES = "{recipes}"' in (ROOT / "setup.py").read_text()
    assert FOLDER == ROOT / "studies"  # there is no second copy in the repository
