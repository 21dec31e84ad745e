"""Compiled C code for the few loops that torch cannot run fast, with its loader and its checks.

The C code only saves time on a CPU. It is built with the package if a C compiler is available.
Without it, torch computes the same numbers to about 1e-7. Other rooms call ``load_library`` and
use torch if it returns None; ``status`` says whether the C code is in use, and if not, why.
"""

from nearsight.native.calls import LANES, Library
from nearsight.native.library import Status, load_library, status

__all__ = ["LANES", "Library", "Status", "load_library", "status"]
