"""Define the subcommand ``nearsight papers``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import Result, examples

EXAMPLE = examples(
    "nearsight papers",
    "nearsight papers --paper convit --studies studies-out",
)


def list_papers(
    paper: Annotated[
        Literal["protocol", "locat", "convit"] | None,
        typer.Option(help="List only the tables and figures of this paper."),
    ] = None,
    studies: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Look for finished runs in this study folder, or in the studies in this folder. "
            "May be repeated. Default: studies-out, if it exists.",
        ),
    ] = None,
) -> Result:
    """List every table and figure of the three papers.

    Shows for each the recipe that makes it, its cost at both scales, and how much of it has been
    run so far.
    """
    from nearsight.study.papers import listed_items
    from nearsight.study.show import papers_json, print_papers

    found = [x for x in listed_items(studies) if paper in (None, x[0].paper)]
    print_papers(found)
    return Result(content=papers_json(found))
