"""The compiled code is there where it can be, is not used where it does not fit, and says why."""

import ctypes
import shutil
import subprocess
import sys
from ctypes import c_int64

import pytest

from nearsight.native import calls, library


@pytest.fixture
def fresh(monkeypatch):
    """The loader's memory is emptied before and after."""
    monkeypatch.delenv(library.SWITCH, raising=False)
    library._load_once.cache_clear()
    yield library
    library._load_once.cache_clear()


needs_library = pytest.mark.skipif(
    library.load_library() is None, reason="no C compiler when nearsight was installed"
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_it_was_compiled_where_there_is_a_compiler(fresh):
    assert isinstance(fresh.load_library(), calls.Library)
    assert fresh.status().loaded
    assert fresh.status().reason is None
    assert fresh.status().compiler


def test_zero_in_the_environment_turns_it_off(fresh, monkeypatch):
    monkeypatch.setenv("NEARSIGHT_NATIVE", "0")
    assert fresh.load_library() is None
    assert fresh.status() == library.Status(False, "NEARSIGHT_NATIVE is 0")


def test_a_file_in_the_environment_takes_its_place(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("NEARSIGHT_NATIVE", str(tmp_path / "none.so"))
    assert fresh.load_library() is None
    assert "none.so" in fresh.status().reason


def test_a_package_without_it_says_that_it_was_not_built(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert fresh.load_library() is None
    assert "no C compiler" in fresh.status().reason


def test_a_file_that_is_no_library_is_passed_over(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    (tmp_path / f"_compiled{library.EXTENSION_SUFFIXES[0]}").write_bytes(b"another machine's")
    assert fresh.load_library() is None
    assert "cannot be loaded" in fresh.status().reason


@needs_library
def test_code_of_another_interface_is_not_used(fresh, monkeypatch):
    monkeypatch.setattr(library, "INTERFACE", library.INTERFACE + 1)
    assert fresh.load_library() is None
    assert "install nearsight again" in fresh.status().reason


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.processes
def test_a_library_of_somebody_else_is_not_used(fresh, monkeypatch, tmp_path):
    (tmp_path / "other.c").write_text("int something(void) { return 1; }\n")
    file = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, tmp_path / "other.c"], check=True)
    monkeypatch.setenv("NEARSIGHT_NATIVE", str(file))
    assert fresh.load_library() is None
    assert "interface" in fresh.status().reason


class Attention(ctypes.Structure):
    """That of calls.py with two fields of one type exchanged: its size is the same."""

    _fields_ = (
        *((name, calls.Operand) for name in ("keys", "queries", "bias")),
        *calls.Attention._fields_[3:],
    )


class Operand(ctypes.Structure):
    """That of calls.py with one field more."""

    _fields_ = (*calls.Operand._fields_, ("width", c_int64))


@needs_library
@pytest.mark.parametrize(
    ("changed", "named"), [(Attention, "Attention.keys"), (Operand, "Operand")]
)
def test_a_structure_laid_out_differently_is_noticed(fresh, monkeypatch, changed, named):
    kept = [each for each in calls.STRUCTURES if each.__name__ != changed.__name__]
    monkeypatch.setattr(library, "STRUCTURES", (*kept, changed))
    assert fresh.load_library() is None
    assert f"its {named} differs from the Python code" in fresh.status().reason


@needs_library
def test_a_vector_of_another_width_is_noticed(fresh, monkeypatch):
    monkeypatch.setattr(library, "LANES", 16)
    assert fresh.load_library() is None
    assert "its LANES differs from the Python code" in fresh.status().reason


@pytest.mark.processes
def test_the_package_works_without_it():
    code = (
        "import torch, nearsight as ns\n"
        "from nearsight.native import status\n"
        "assert not status().loaded\n"
        "model = ns.create_model('mu_locat', 7)\n"
        "print(ns.measure_model(model, torch.randn(2, 3, 32, 32)).mad.mean[0][0])\n"
    )
    off = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"NEARSIGHT_NATIVE": "0"}
    )
    assert off.returncode == 0, off.stderr
    assert 0 < float(off.stdout) < 1
