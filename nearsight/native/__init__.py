"""Compiled C code for the few loops that torch cannot run fast, its loader and its checks.

The code makes a CPU faster and nothing else. It is built with the package if a C compiler is
available; without it, torch computes the same numbers to about 1e-7. Other rooms call
``load_library`` and fall back to torch where it returns None; ``status`` says which of the two
happens and why.
"""

from nearsight.native.calls import LANES, Library
from nearsight.native.library import Status, load_library, status

__all__ = ["LANES", "Library", "Status", "load_library", "status"]
