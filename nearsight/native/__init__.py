"""Compiled C code for the few loops that torch cannot run fast, and its loader.

The code makes a CPU faster and nothing else. It is built with the package if a C compiler is
available; without it, torch computes the same numbers. Other rooms call ``load_library`` and fall
back to torch where it returns None.
"""

from nearsight.native.library import LANES, load_library

__all__ = ["LANES", "load_library"]
