"""Options that every command has: --quiet, --json and --threads, defined once.

A command prints for people, and returns a ``Result``: the files it wrote and its content. With
--quiet only the paths are printed, with --json one object that holds the paths and the content.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from nearsight.core import slow_threads

Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the paths of what was written.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
MOST_THREADS = 1024  # far more overflow a stack of the operating system
Threads = Annotated[int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets; else $NEARSIGHT_DATA or ~/.cache/nearsight/data."),
]
SHARED = {"quiet": Quiet, "as_json": AsJson, "threads": Threads}
Command = Callable[..., "Result | None"]
COMPUTING = ("train", "measure", "evaluate", "localise", "demo", "causal")  # for long
DEFAULTS = {"quiet": False, "as_json": False, "threads": None}


class Result(NamedTuple):
    """What a command wrote, and what it found, for those who do not read tables."""

    written: tuple[Path, ...] = ()
    content: Any = None

    def text(self, printed: str = "") -> str:
        """Return JSON: the content; with the paths beside it where files were written.

        A command that only prints a table gives its lines.
        """
        content = printed.splitlines() if self.content is None else self.content
        if not self.written:
            return json.dumps(content, indent=2, default=str)
        paths = [str(path) for path in self.written]
        return json.dumps({"written": paths, "result": self.content}, indent=2, default=str)


class App(typer.Typer):
    """A group of commands that all have the shared options."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Command], Command]:
        """Register a command under a name; the function itself stays as it is."""
        register = super().command(name, **options)

        def add(function: Command) -> Command:
            register(shared(function, computes=name in COMPUTING))
            return function

        return add


def shared(command: Command, computes: bool = False) -> Callable[..., None]:
    """Return a command with the options that all have.

    Args:
        command: A function with typer's annotations that prints and returns a ``Result``.
        computes: Whether it computes for long, so that a busy machine is worth a warning.
    """
    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation=kind
        )
        for name, kind in SHARED.items()
    ]
    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()
    ]

    @wraps(command)
    def run(*, quiet: bool, as_json: bool, threads: int | None, **options: Any) -> None:
        set_threads(threads)
        if computes and not quiet and threads is None and (warning := slow_threads()):
            print(f"nearsight: {warning}", file=sys.stderr)
        with ExitStack() as stack:
            printed = io.StringIO()
            if quiet or as_json:
                stack.enter_context(redirect_stdout(printed))
            if quiet:
                stack.enter_context(redirect_stderr(io.StringIO()))
            found = command(**options) or Result()
        if as_json:
            print(found.text(printed.getvalue()))
        elif quiet:
            print(*found.written, sep="\n", end="\n" * bool(found.written))

    parameters = [*own, *added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__  # typer would look through it
    return run


def set_threads(threads: int | None) -> None:
    """Use this many CPU threads; None leaves it to torch."""
    if threads is None:
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for torch where it is imported later
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
