"""The notebooks run from the first cell to the last, and the page of the API is current."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def show_cell(source: str, names: dict[str, Any]) -> str:
    """Run a cell as a notebook does, and return how its last value is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    html = getattr(value, "_repr_html_", lambda: None)()
    return html or repr(value)


def test_there_are_three_notebooks_without_outputs() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") for cell in cells)
        assert path.name in (ROOT / "examples" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    data_root = tmp_path_factory.getbasetemp() / "demo-data"  # generated once
    data_root.mkdir(exist_ok=True)
    monkeypatch.setenv("NEARSIGHT_DATA", str(data_root))
    names: dict[str, Any] = {}
    shown = [
        show_cell("".join(cell["source"]), names)
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    page = max(tmp_path.glob("*.html"), key=lambda each: each.stat().st_mtime_ns)
    assert "Attention distance and entropy through the layers" in page.read_text()
    if "profile" in names:
        lowest = f"{min(head for layer in names['profile'].mad.mean for head in layer):.3f}"
        assert any(lowest in text for text in shown) or lowest in page.read_text()


def test_the_page_of_the_api_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
    message = "run python docs/make_api.py"
    assert made["api_page"]() == (ROOT / "docs" / "api.md").read_text(), message
