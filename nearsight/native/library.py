"""Find, check and load the compiled library.

``NEARSIGHT_NATIVE=0`` in the environment turns it off, so that torch does all the work;
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

INTERFACE = 6  # that of library.c when calls.py was written
SWITCH = "NEARSIGHT_NATIVE"


class Field(ctypes.Structure):
    """A structure of the C code, a field of one, or a number (library.c)."""

    _fields_ = (("name", c_char_p), ("offset", c_int64), ("size", c_int64))


@dataclass(frozen=True)
class Status:
    """Whether the compiled library is in use. It changes the last digits of some numbers.

    Attributes:
        loaded: Whether it is.
        reason: Why it is not, else None.
        interface: The version of the interface between C and Python that this package speaks.
        compiler: What compiled the library, e.g. "GCC 12.2.0", if it is loaded.
        instructions: "avx2" or "any processor", by which of its loops it uses here, if loaded.
    """

    loaded: bool
    reason: str | None = None
    interface: int = INTERFACE
    compiler: str | None = None
    instructions: str | None = None


class UnfitLibrary(Exception):
    """The library cannot be used; the message says why."""


def load_library() -> Library | None:
    """Return the compiled library, or None where torch has to do its work."""
    return _loaded()[0]


def status() -> Status:
    """Say whether the compiled library is in use, and if not, why.

    >>> from nearsight.native import load_library, status
    >>> status().loaded == (load_library() is not None)
    True
    """
    return _loaded()[1]


@cache
def _loaded() -> tuple[Library | None, Status]:
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
        UnfitLibrary: It cannot be loaded, or it does not fit this Python code.
    """
    try:
        found = ctypes.CDLL(str(file))
        interface = c_int.in_dll(found, "interface").value
    except (OSError, ValueError) as error:  # another machine's, or none of ours
        raise UnfitLibrary(f"it cannot be loaded: {error}") from None
    if interface != INTERFACE:
        raise UnfitLibrary(
            f"it has interface {interface}, not {INTERFACE}: install nearsight again"
        )
    ours, theirs = _python_fields(), _compiled_fields(found)
    if different := sorted(ours.items() ^ theirs.items()):
        where = different[0][0]
        raise UnfitLibrary(f"its {where} differs from ours: install nearsight again")
    compiler = ctypes.string_at(ctypes.addressof(c_char.in_dll(found, "compiler"))).decode()
    instructions = "avx2" if found.uses_avx2() else "any processor"
    return Library(found), Status(True, None, interface, compiler, instructions)


def _python_fields() -> dict[str, tuple[int, int]]:
    """Offset and size of every structure and field as calls.py has them."""
    found = {"LANES": (0, LANES)}
    for structure in STRUCTURES:
        found[structure.__name__] = 0, ctypes.sizeof(structure)
        for name, *_ in structure._fields_:
            field = getattr(structure, name)
            found[f"{structure.__name__}.{name}"] = field.offset, field.size
    return found


def _compiled_fields(library: ctypes.CDLL) -> dict[str, tuple[int, int]]:
    """The same as the C compiler laid them out."""
    field = ctypes.pointer(Field.in_dll(library, "fields"))
    found, at = {}, 0
    while name := field[at].name:
        found[name.decode()] = field[at].offset, field[at].size
        at += 1
    return found
