"""Define the options that several commands share.

Every command has --quiet, --json and --threads. A command prints text for people and returns a
``Result``: the files that it wrote, and its answer as data. With --quiet only the paths of the
files are printed, and with --json one object that contains the paths and the answer.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from nearsight.core import slow_threads

Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the paths of written files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
MOST_THREADS = 1024  # with many more, starting the threads crashes
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_THREADS,
        help="Use this many CPU threads. Default: $OMP_NUM_THREADS, or one per CPU core.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Compute on cpu, cuda, cuda:1 or mps, or on the best one available (auto).",
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Look for data sets in this folder. Default: $NEARSIGHT_DATA, or "
        "~/.cache/nearsight/data.",
    ),
]
OneWeights = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Load the model's weights from this file.")
]
ManyWeights = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Load weights from this file. Repeat the option for each model that needs weights, in "
        "the order of the models; runs and hf/ models have their own.",
    ),
]
Pretrained = Annotated[
    bool,
    typer.Option(
        "--pretrained", help="Download pretrained weights for models without a weight file."
    ),
]
RandomInit = Annotated[
    bool,
    typer.Option("--random-init", help="Use random weights for models without a weight file."),
]
ImageSize = Annotated[
    str | None,
    typer.Option(
        metavar="N or HxW", help="Resize images to this size in pixels. Default: the model's size."
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Process this many images at once.")]
SHARED = {"quiet": Quiet, "as_json": AsJson, "threads": Threads}
Command = Callable[..., "Result | None"]
COMPUTING = ("train", "measure", "evaluate", "localise", "causal")  # commands that take long
PLACEHOLDERS = {"path": "PATH", "int": "N", "float": "NUMBER", "str": "TEXT"}
DEFAULTS = {"quiet": False, "as_json": False, "threads": None}


class Result(NamedTuple):
    """The files that a command wrote, and its answer as data, for --quiet and --json."""

    written: tuple[Path, ...] = ()
    content: Any = None

    def text(self, printed: str = "") -> str:
        """Return the content as JSON, together with the paths if files were written.

        If a command has no content, its printed lines are returned instead.
        """
        content = printed.splitlines() if self.content is None else self.content
        if not self.written:
            return json.dumps(content, indent=2, default=str)
        paths = [str(path) for path in self.written]
        return json.dumps({"written": paths, "result": self.content}, indent=2, default=str)


class PlainCommand(TyperCommand):
    """A command whose help names values PATH, N or TEXT, where typer would name Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: ``RUNS...`` instead of ``{runs}...``."""
        return [
            re.sub(r"^\{(.+)\}", r"\1", piece).upper()
            for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        for kind, heading in (("argument", "Arguments"), ("option", "Options")):
            given = [x for x in self.get_params(ctx) if x.param_type_name == kind]
            found = [record for x in given if (record := x.get_help_record(ctx))]
            named = argument_name if kind == "argument" else option_name
            if found:
                with formatter.section(heading):
                    formatter.write_dl([(named(name), text) for name, text in found])


def argument_name(text: str) -> str:
    """Return the name of an argument without its type.

    >>> argument_name("runs... <list[Path]>")
    'RUNS...'
    """
    return text.partition(" <")[0].upper()


def option_name(text: str) -> str:
    """Replace the Python type of an option's value by a word.

    >>> option_name("--out <path>"), option_name("--weights <list[Path]>")
    ('--out PATH', '--weights PATH')
    >>> option_name("--batch-size <int range>"), option_name("--parallel <ddp|fsdp>")
    ('--batch-size N', '--parallel ddp|fsdp')
    """

    def word(match: re.Match[str]) -> str:
        return PLACEHOLDERS.get(match[1].lower().removesuffix(" range"), match[1])

    return re.sub(r"<(?:list\[)?([^\[\]]+?)\]?>", word, text)


class App(typer.Typer):
    """A group of commands to which the shared options are added."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Command], Command]:
        """Register a function as a command, and return the function unchanged."""
        register = super().command(name, cls=PlainCommand, **options)

        def add(function: Command) -> Command:
            register(add_shared_options(function, computes=name in COMPUTING))
            return function

        return add


def add_shared_options(command: Command, computes: bool = False) -> Callable[..., None]:
    """Return a command with --quiet, --json and --threads added.

    Args:
        command: A function with typer's annotations that prints and returns a ``Result``.
        computes: Whether the command takes long, so that it should warn of a busy machine.
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
    del run.__wrapped__  # or typer would use the signature of the wrapped function
    return run


def examples(*commands: str) -> str:
    """Return the end of a help text, which lists examples, one in a line.

    >>> print(examples("nearsight demo").replace(chr(8), ""))
    <BLANKLINE>
    Examples:
      nearsight demo
    """
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def set_threads(threads: int | None) -> None:
    """Use this many CPU threads, or torch's default if ``threads`` is None."""
    if threads is None:
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for torch, if it is imported later
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
