"""Run a command in this process as a user would type it, and judge what it says."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from attack.verdicts import ACCEPTED, LONGEST, REFUSED, TRACEBACK, Verdict, verdict_of


def command(*words: str) -> Verdict:
    """Return the verdict of ``nearsight`` with these words."""
    from nearsight.cli.app import main

    out, err = io.StringIO(), io.StringIO()
    code = 0

    def run() -> None:
        nonlocal code
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)

    with (
        patch.object(sys, "argv", ["nearsight", *words]),
        patch.dict(os.environ),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        os.environ.pop("NEARSIGHT_TRACEBACK", None)
        verdict = verdict_of(run)
    if verdict.what != ACCEPTED:
        return verdict
    said = err.getvalue().strip()
    if code == 0:
        return Verdict(ACCEPTED, value=out.getvalue())
    if not said or len(said) > LONGEST or "Traceback" in said:
        return Verdict(TRACEBACK, f"exit code {code} of {' '.join(words)}: {said[:LONGEST]!r}")
    return Verdict(REFUSED, said)
