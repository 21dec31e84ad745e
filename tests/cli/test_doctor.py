"""nearsight doctor: what is installed, readable in a terminal and by programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch

from nearsight.native import library

Answer = tuple[int, str, str]


@pytest.fixture
def _fresh_library(monkeypatch: pytest.MonkeyPatch):
    library._load_once.cache_clear()
    yield
    monkeypatch.undo()
    library._load_once.cache_clear()


def test_it_prints_versions_library_threads_devices_data_and_extras(
    nearsight: Callable[..., Answer], tmp_path: Path
):
    code, out, err = nearsight("doctor")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    lines = {line[:18].strip(): line[18:] for line in out.splitlines() if line[0] != " "}
    for name in ("torch", "timm", "numpy", "pydantic"):
        assert lines[name] == metadata.version(name)
    assert lines["nearsight"].startswith("0.1.0")
    state = library.status()
    words = state.compiler if state.loaded else state.reason
    assert str(words) in " ".join(out.split())
    assert lines["threads"].startswith("1 on ")  # as conftest.py sets it
    assert lines["devices"].startswith("cpu ")
    assert "does not exist yet" in " ".join(out.split())
    assert lines["extra test"] == "installed"


def test_it_gives_the_same_as_json(nearsight: Callable[..., Answer], tmp_path: Path):
    (tmp_path / "data").mkdir()
    found = json.loads(nearsight("doctor", "--json")[1])
    assert found["versions"]["torch"] == torch.__version__
    assert found["native"]["loaded"] == library.status().loaded
    assert found["native"]["interface"] == library.INTERFACE
    assert found["threads"] == {"torch": 1, "processors": os.cpu_count()}
    assert found["data"] == {"root": str(tmp_path / "data"), "exists": True, "sets": ["shapes"]}
    assert found["extras"]["hf"] == {"transformers": metadata.version("transformers")}
    assert found["environment"]["NEARSIGHT_DATA"] == str(tmp_path / "data")


@pytest.mark.usefixtures("_fresh_library")
def test_a_library_that_is_turned_off_is_said_to_be(
    nearsight: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NEARSIGHT_NATIVE", "0")
    code, out, _ = nearsight("doctor")
    assert code == 0
    assert "not loaded (NEARSIGHT_NATIVE is 0); torch does its work" in " ".join(out.split())


@pytest.mark.usefixtures("_fresh_library")
def test_a_library_that_was_not_built_is_said_to_be_missing(
    nearsight: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    code, out, _ = nearsight("doctor")
    assert code == 0
    assert "it was not built: there was no C compiler" in " ".join(out.split())


def test_an_extra_that_is_not_installed_names_what_is_missing(
    nearsight: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
):
    wanted = ["torch>=2.6", "numpy", 'no-such-package>=3; extra == "made"', "timm; extra == 'made'"]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    _, out, _ = nearsight("doctor")
    (line,) = (line for line in out.splitlines() if line.startswith("extra "))
    assert line.split() == ["extra", "made", "missing", "no-such-package"]
    assert json.loads(nearsight("doctor", "--json")[1])["extras"] == {
        "made": {"no-such-package": None, "timm": metadata.version("timm")}
    }


@pytest.mark.processes
def test_it_works_where_torch_does_not(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: no such file')\n")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "nearsight", "doctor"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be imported: libtorch_cpu.so: no such file" in " ".join(done.stdout.split())
