"""Define the command ``nearsight``: its subcommands in their order, and how errors are reported.

A mistake of the user is reported as one line on stderr with a non-zero exit code. Set the
environment variable NEARSIGHT_TRACEBACK=1 to see the traceback.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer

from nearsight.cli.data import data_app
from nearsight.cli.demo import EXAMPLE as DEMO_EXAMPLE
from nearsight.cli.demo import show_demo
from nearsight.cli.doctor import EXAMPLE as DOCTOR_EXAMPLE
from nearsight.cli.doctor import show_doctor
from nearsight.cli.evaluate import EXAMPLE as EVALUATE_EXAMPLE
from nearsight.cli.evaluate import evaluate
from nearsight.cli.explore import EXAMPLE as EXPLORE_EXAMPLE
from nearsight.cli.explore import explore
from nearsight.cli.localise import EXAMPLE as LOCALISE_EXAMPLE
from nearsight.cli.localise import search
from nearsight.cli.maps import EXAMPLE as MAPS_EXAMPLE
from nearsight.cli.maps import show_maps
from nearsight.cli.measure import (
    DIFF_EXAMPLE,
    MEASURE_EXAMPLE,
    REPORT_EXAMPLE,
    diff,
    measure,
    report,
)
from nearsight.cli.models import EXAMPLE as MODELS_EXAMPLE
from nearsight.cli.models import show_models
from nearsight.cli.shared import (
    App,
    examples,
)
from nearsight.cli.study import study_app
from nearsight.cli.study_results import PAPERS_EXAMPLE, list_papers
from nearsight.cli.train import PROTOCOLS_EXAMPLE, TRAIN_EXAMPLE, show_protocols, train
from nearsight.core import UserError, is_out_of_memory, printable

app = App(
    help="Measure how local a Vision Transformer's attention is, and find out what makes it local.",
    epilog="Start with `nearsight demo`. To study runs of your own, use train, then measure, then "
    "report. `nearsight COMMAND --help` explains a command and its options, with examples.\n\n"
    + examples(
        "nearsight demo",
        "nearsight measure vit_tiny_patch16_224 --weights vit_tiny.safetensors --images DIR",
    ),
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(study_app, name="study")

BUG_NOTE = (
    "This is a bug in nearsight. Please report it with the command and the traceback above; "
    "`nearsight doctor` prints the versions to add."
)
INTERRUPTED = 130  # exit code after Ctrl-C
LONG_WORD = re.compile(r"(\S{200})\S{150,}(\S{50})")  # such as a path that is one by mistake


@app.callback(invoke_without_command=True)
def _nearsight(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from nearsight import __version__

        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


# The order is that of the list in the help.
app.command("demo", epilog=DEMO_EXAMPLE)(show_demo)
app.command("protocols", epilog=PROTOCOLS_EXAMPLE)(show_protocols)
app.command("train", epilog=TRAIN_EXAMPLE)(train)
app.command("measure", epilog=MEASURE_EXAMPLE)(measure)
app.command("diff", epilog=DIFF_EXAMPLE)(diff)
app.command("evaluate", epilog=EVALUATE_EXAMPLE)(evaluate)
app.command("explore", epilog=EXPLORE_EXAMPLE)(explore)
app.command("localise", epilog=LOCALISE_EXAMPLE)(search)
app.command("maps", epilog=MAPS_EXAMPLE)(show_maps)
app.command("models", epilog=MODELS_EXAMPLE)(show_models)
app.command("papers", epilog=PAPERS_EXAMPLE)(list_papers)
app.command("doctor", epilog=DOCTOR_EXAMPLE)(show_doctor)
app.command("report", epilog=REPORT_EXAMPLE)(report)


def main() -> None:
    """Run the command line and exit.

    The exit code is 0 after success, 1 after an error, 2 after wrong usage, and 128 plus the number
    of the signal if a signal stopped the command.
    """
    try:
        code = app(standalone_mode=False, prog_name="nearsight")
        if code == INTERRUPTED:
            _say("stopped", code)
    except Exception as error:
        if os.environ.get("NEARSIGHT_TRACEBACK"):
            raise
        code = _exit_code(error)
    sys.exit(code or 0)


def _exit_code(error: Exception) -> int:
    """Print a known error in one line and return its exit code, or raise an unknown error again."""
    if hasattr(error, "show"):  # wrong usage, found by typer
        if hasattr(error, "message"):
            error.message = _shown(error.message)
        error.show()
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, typer.Abort):  # Ctrl-C, in versions of typer that raise it
        return _say("stopped", INTERRUPTED)
    if hasattr(error, "exit_code"):  # a run that stopped on a signal
        return _say(str(error), error.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}; files written earlier are kept", 1)
    if is_out_of_memory(error):
        return _say(
            "there is not enough memory; use a smaller batch (--batch-size N, or train --set "
            "batch_size=N), smaller images or a smaller model",
            1,
        )
    if isinstance(error, UserError):
        return _say(str(error), 1)
    error.add_note(BUG_NOTE)
    raise error


def _say(sentence: str, code: int) -> int:
    print(f"nearsight: {_shown(sentence)}", file=sys.stderr)
    return code


def _shown(sentence: str) -> str:
    """Return a sentence with control characters replaced and long words cut in the middle."""
    return LONG_WORD.sub(r"\1…\2", printable(sentence))
