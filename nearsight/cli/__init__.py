"""The command line: one module per group of commands. Each parses, calls one function, prints."""

from __future__ import annotations

from nearsight.cli.app import main

__all__ = ["main"]
