"""GCC and Clang build the same C code, without a warning, into libraries that agree with torch."""

import ctypes
import shutil
import subprocess
from unittest import mock

import pytest
import torch
from native.building import build
from native.example_calls import LAYOUTS, assert_same, by_kernel, made_call, spread_call

from nearsight.measure.layout.geometry import Geometry
from nearsight.measure.rows import kernel
from nearsight.native.calls import Library
from nearsight.native.library import open_library

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
CPU = torch.device("cpu")
PROCESSORS = {"this processor": (), "any processor": ("-DANY_PROCESSOR",)}


@pytest.fixture(scope="module", params=COMPILERS)
def compiler(request):
    return request.param


@pytest.fixture(scope="module", params=PROCESSORS)
def built(compiler, request, tmp_path_factory):
    file = tmp_path_factory.mktemp(compiler) / "built.so"
    return build(compiler, file, *PROCESSORS[request.param])


@pytest.fixture
def opened(built, monkeypatch):
    library, status = open_library(built)
    monkeypatch.setattr(kernel, "load_library", lambda: library)
    monkeypatch.setattr(kernel, "CHUNK", 101)
    return library, status


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_are_those_of_torch_in_float64(opened, layout, bias):
    assert_same(made_call(LAYOUTS[layout], bias=bias), LAYOUTS[layout])


@pytest.mark.parametrize("largest", [15.9, 16.1, 63.9, 64.1])  # kernel.c's BOUND is 16 or 64
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_right_on_both_sides_of_the_bound(opened, largest, sign):
    layout = LAYOUTS["two prefix tokens"]
    assert_same(spread_call(layout, largest, sign), layout)


def test_the_library_says_who_built_it_and_for_what(opened, compiler, built):
    _, status = opened
    assert status.loaded
    assert {"gcc": "GCC", "clang": "Clang"}[compiler] in status.compiler
    chosen = ctypes.CDLL(str(built)).uses_avx2()
    assert status.instructions == ("avx2" if chosen else "any processor")


@pytest.mark.parametrize("sharpness", [0.3, 2.0, 20.0])  # logits within the bound and beyond
@pytest.mark.parametrize("layout", LAYOUTS)
def test_avx512_and_avx2_agree_in_every_bit(compiler, tmp_path_factory, layout, sharpness):
    file = tmp_path_factory.getbasetemp() / f"{compiler}_variants.so"
    loaded = ctypes.CDLL(str(file if file.exists() else build(compiler, file)))
    if not loaded.uses_avx512():
        pytest.skip("this processor has no AVX-512")
    call, geometry = made_call(LAYOUTS[layout], sharpness=sharpness), Geometry(LAYOUTS[layout], CPU)
    found = []
    for variant in ("avx2", "avx512"):
        library = Library(loaded)
        function = getattr(loaded, f"attention_sums_{variant}")
        function.argtypes, function.restype = loaded.attention_sums.argtypes, ctypes.c_int
        library._functions["attention_sums"] = function
        with mock.patch.object(kernel, "load_library", return_value=library):
            found.append(by_kernel(call, LAYOUTS[layout], geometry))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm to list symbols")
@pytest.mark.processes
def test_the_library_needs_no_openmp(built):
    listed = subprocess.run(["nm", "-D", built], capture_output=True, text=True, check=True).stdout
    assert "attention_sums" in listed
    assert not [word for word in listed.lower().split() if "gomp" in word or "kmp" in word]


def test_a_warning_stops_the_build(compiler, tmp_path):
    with pytest.raises(RuntimeError, match="redefined"):
        build(compiler, tmp_path / "built.so", "-DINLINE=static")
