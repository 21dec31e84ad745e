"""The command line, with one module per group of commands.

A command parses its options, calls one function, and prints what was written.
"""

from __future__ import annotations

from nearsight.cli.app import main

__all__ = ["main"]
