"""The subcommand ``nearsight demo``: parse, call one function, print what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import Result

EXAMPLE = "Example: nearsight demo --out demo"


def show_demo(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("demo"),
    epochs: Annotated[
        int, typer.Option(min=1, help="How long the live model trains, about 20 seconds each.")
    ] = 3,
) -> Result:
    """Look at four trained ViTs, watch one train, read the report: 3 minutes, no download."""
    from nearsight.demo import run_demo

    found = run_demo(out, epochs=epochs)
    print(found.report)
    return Result((found.page, found.report))
