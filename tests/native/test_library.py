"""The compiled code is there where it can be, and is not used where it does not fit."""

import shutil

import pytest

from nearsight.native import library as compiled


@pytest.fixture
def fresh_library():
    compiled.load_library.cache_clear()
    yield compiled.load_library
    compiled.load_library.cache_clear()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_it_was_compiled_where_there_is_a_compiler(fresh_library):
    found = fresh_library()
    assert found is not None
    assert found.attention_sums
    assert found.write_product


def test_code_of_another_interface_is_not_used(fresh_library, monkeypatch):
    monkeypatch.setattr(compiled, "INTERFACE", compiled.INTERFACE + 1)
    assert fresh_library() is None


def test_a_file_that_is_no_library_is_passed_over(fresh_library, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert fresh_library() is None
    (tmp_path / f"_compiled{compiled.EXTENSION_SUFFIXES[0]}").write_bytes(b"another machine's")
    fresh_library.cache_clear()
    assert fresh_library() is None
