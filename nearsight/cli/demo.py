"""Define the subcommand ``nearsight demo``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import Result, examples, set_threads
from nearsight.core import thread_slowdown

EXAMPLE = examples("nearsight demo", "nearsight demo --epochs 10 --out my-demo")


def show_demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write to this folder.")] = Path("demo"),
    epochs: Annotated[
        int,
        typer.Option(min=1, help="Train the new model for this many epochs of about 20 seconds."),
    ] = 3,
) -> Result:
    """Explore four trained ViTs, train one, and write a report.

    Writes a page that shows where every head attends (look.html) and a report of all five models
    (report.html). Takes about 3 minutes and downloads nothing.
    """
    from nearsight.demo import run_demo

    use_one_thread_if_busy()

    # Flushed, so that the path of the page is seen before the training also in a pipe.
    found = run_demo(out, epochs=epochs, say=partial(print, flush=True))
    print(found.report)
    return Result((found.page, found.report))


def use_one_thread_if_busy() -> None:
    """Use one thread if several threads are not faster, unless the user chose a number."""
    if "OMP_NUM_THREADS" not in os.environ and thread_slowdown() > 1:
        print("This machine is busy, so the demo uses one thread.")
        set_threads(1)
