"""Shapes in signatures are checked while tests run; torchvision is made importable first."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jaxtyping import install_import_hook

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
TYPED = ["nearsight.models", "nearsight.data", "nearsight.train", "nearsight.measure"]
TYPED += ["nearsight.study.analyse.extremes"]
install_import_hook(TYPED, "beartype.beartype")

from nearsight.models.compat import declare_missing_ops  # noqa: E402

declare_missing_ops()

# What a fixture brings along; a test that asks for it, also through others, gets the marker.
MARKERS = {
    "browser": "browser",
    "small": "training",  # the protocol of a small run
    "compiler": "processes",
    "node_modules": "processes",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in set(getattr(item, "fixturenames", ())) & MARKERS.keys():
            item.add_marker(MARKERS[name])


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium; one for all tests, since playwright can be started only once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium found (set CHROMIUM to its path)")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; skipped where there is none."""
    root = os.environ.get("NEARSIGHT_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("NEARSIGHT_DATA names no folder of real data sets")
    return Path(root)


@pytest.fixture
def nearsight(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in ``tmp_path``: exit code, stdout, stderr."""
    from nearsight.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEARSIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("NEARSIGHT_TRACEBACK", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearsight", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return command


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
