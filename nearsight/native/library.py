"""Find, check and load the compiled library.

The environment variable ``NEARSIGHT_NATIVE=0`` turns it off, so that torch does all the work.
``NEARSIGHT_NATIVE=FILE`` loads that file instead of the one that was built with the package.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char, c_char_p, c_int, c_int64
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from nearsight.native.calls import LANES, STRUCTURES, Library

INTERFACE = 7  # must equal ``interface`` in library.c
SWITCH = "NEARSIGHT_NATIVE"


class Field(ctypes.Structure):
    """An entry of the list in library.c: a structure, a field of one, or a constant."""

    _fields_ = (("name", c_char_p), ("offset", c_int64), ("size", c_int64))


@dataclass(frozen=True)
class Status:
    """Whether the compiled library is in use, which changes the last digits of some numbers.

    Attributes:
        loaded: Whether it is in use.
        reason: Why it is not in use; None if it is.
        interface: The version of the interface between C and Python that this package expects.
        compiler: The compiler that built the library, for example "GCC 12.2.0"; None if it is not
            loaded.
        instructions: The instructions that it uses on this processor, "avx2" or "any processor";
            None if it is not loaded. On a processor with AVX-512 the library is faster but gives
            the same digits, so this is "avx2" there too.
    """

    loaded: bool
    reason: str | None = None
    interface: int = INTERFACE
    compiler: str | None = None
    instructions: str | None = None


class UnfitLibrary(Exception):
    """Raised if a library cannot be used; the message says why."""


def load_library() -> Library | None:
    """Return the compiled library, or None if there is none and torch has to do its work."""
    return _load_once()[0]


def status() -> Status:
    """Return whether the compiled library is in use, and if not, why.

    >>> from nearsight.native import load_library, status
    >>> status().loaded == (load_library() is not None)
    True
    """
    return _load_once()[1]


@cache
def _load_once() -> tuple[Library | None, Status]:
    """Return the first library that can be used, and the status; later calls return the same."""
    wanted = os.environ.get(SWITCH, "")
    if wanted == "0":
        return None, Status(False, f"{SWITCH} is 0")
    built = [Path(__file__).with_name(f"_compiled{suffix}") for suffix in EXTENSION_SUFFIXES]
    files = [Path(wanted)] if wanted else [file for file in built if file.exists()]
    reason = "it was not built: there was no C compiler when nearsight was installed"
    for file in files:
        try:
            return open_library(file)
        except UnfitLibrary as error:
            reason = str(error)
    return None, Status(False, reason)


def open_library(file: Path) -> tuple[Library, Status]:
    """Load a library from a file.

    Raises:
        UnfitLibrary: If the library cannot be loaded, or does not match this Python code.
    """
    try:
        loaded = ctypes.CDLL(str(file))
        interface = c_int.in_dll(loaded, "interface").value
    except (OSError, ValueError) as error:  # built for another machine, or not our library
        raise UnfitLibrary(f"it cannot be loaded: {error}") from None
    if interface != INTERFACE:
        raise UnfitLibrary(
            f"it has interface {interface}, but this version needs {INTERFACE}: install nearsight "
            "again"
        )
    ours, theirs = _python_fields(), _compiled_fields(loaded)
    if different := sorted(ours.items() ^ theirs.items()):
        where = different[0][0]
        raise UnfitLibrary(f"its {where} differs from the Python code: install nearsight again")
    compiler = ctypes.string_at(ctypes.addressof(c_char.in_dll(loaded, "compiler"))).decode()
    instructions = "avx2" if loaded.uses_avx2() else "any processor"
    return Library(loaded), Status(True, None, interface, compiler, instructions)


def _python_fields() -> dict[str, tuple[int, int]]:
    """Return offset and size of every structure and field as calls.py declares them."""
    fields = {"LANES": (0, LANES)}
    for structure in STRUCTURES:
        fields[structure.__name__] = 0, ctypes.sizeof(structure)
        for name, *_ in structure._fields_:
            field = getattr(structure, name)
            fields[f"{structure.__name__}.{name}"] = field.offset, field.size
    return fields


def _compiled_fields(library: ctypes.CDLL) -> dict[str, tuple[int, int]]:
    """Return offset and size of every structure and field as the C compiler laid them out."""
    field = ctypes.pointer(Field.in_dll(library, "fields"))
    fields, at = {}, 0
    while name := field[at].name:
        fields[name.decode()] = field[at].offset, field[at].size
        at += 1
    return fields
