"""The subcommand ``nearsight models``: parse, call one function, print what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import Result
from nearsight.core import UserError

EXAMPLE = "Example: nearsight models locatvit_base --image-size 224 --set reg_tokens=4"
NOT_SET = {
    "name": "the name of the model as an argument",
    "image_size": "the image size as --image-size",
    "pretrained": "no weights, as they do not change what a model costs",
    "weights": "no weights, as they do not change what a model costs",
}


COVERAGE = "coverage"


def show_models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A model to count: a name of ours or timm, timm/NAME, torchvision/NAME, "
            "hf/OWNER/NAME, hf/FOLDER; or the word coverage: try to measure every model file."
        ),
    ] = None,
    image_size: Annotated[
        str | None, typer.Option(metavar="N or HxW", help="Pixels, if not the model's own.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="An option of create_model; may be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With coverage: keep the rows in this folder and go on from them."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="With coverage: write the table into this page.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="With coverage: try ten models only.")
    ] = False,
) -> Result:
    """Our names; with a name, its parameters, tokens and FLOPs per image.

    `nearsight models coverage --out DIR` tries to measure one model of every model file of timm,
    torchvision and Hugging Face, with random weights, each in a process of its own.
    """
    if name == COVERAGE:
        return _cover(out, page, sample)
    if out or page or sample:
        raise UserError("--out, --page and --sample go with: nearsight models coverage")
    from nearsight.protocol import option_values

    options = option_values(set_ or [])
    if name is None and (options or image_size):
        raise UserError("expected the name of a model to go with --set or --image-size, got none")
    for key, expected in NOT_SET.items():
        if key in options:
            raise UserError(f"expected {expected}, got --set {key}")
    from nearsight.measure.folders import sides
    from nearsight.models.cost import named_cost, own_names, print_cost, print_names

    if name is None:
        print_names()
        return Result(content=own_names())
    found = named_cost(name, sides(image_size) if image_size else None, **options)
    print_cost(found)
    return Result(content=found.contents())


def _cover(out: Path | None, page: Path | None, sample: bool) -> Result:
    """Try every model file and print the rows."""
    from nearsight.core import counting
    from nearsight.measure.coverage import SAMPLE, coverage_table, run_coverage, write_page

    if out is None:
        raise UserError("nearsight models coverage needs a folder for its rows: give --out DIR")
    with counting("trying models") as count:
        rows = run_coverage(out, SAMPLE if sample else None, progress=count)
    if page:
        write_page(page, rows)
    print(coverage_table(rows))
    return Result(content=[x.contents() for x in rows])
