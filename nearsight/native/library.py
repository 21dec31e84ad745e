"""The few loops that are compiled C, if a C compiler was there when nearsight was installed.

They make a CPU faster and nothing else: without them torch computes the same. The library uses the
OpenMP that torch has loaded, so that both share their threads.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch  # noqa: F401  (loads OpenMP)

INTERFACE = 5  # that of the C code (kernel.c) when the calls of it were written
LANES = 8  # floats that it takes at a time (floats.h)


@cache
def load_library() -> ctypes.CDLL | None:
    """The compiled code, if there is some that fits this Python code and this torch."""
    files = [Path(__file__).with_name(f"_compiled{suffix}") for suffix in EXTENSION_SUFFIXES]
    for file in filter(Path.exists, files):
        try:
            found = ctypes.CDLL(str(file))
        except OSError:  # another machine's, or torch brought no OpenMP
            continue
        if c_int.in_dll(found, "interface").value == INTERFACE:
            return found
    return None
