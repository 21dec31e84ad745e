"""Define the subcommand ``nearsight models``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import Result, examples
from nearsight.core import UserError

EXAMPLE = examples(
    "nearsight models",
    "nearsight models locatvit_base --image-size 224 --set reg_tokens=4",
)
NOT_SET = {
    "name": "give the name of the model as an argument",
    "image_size": "use --image-size",
    "pretrained": "weights do not change what a model costs",
    "weights": "weights do not change what a model costs",
}
COVERAGE = "coverage"


def show_models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Count the cost of this model: a name from the list, timm/NAME, torchvision/NAME, "
            "hf/OWNER/NAME or hf/FOLDER. The word coverage is explained above."
        ),
    ] = None,
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="N or HxW", help="Count for images of this size. Default: the model's size."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set an option of create_model. May be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With coverage: store the results in this folder, or continue from those in it.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With coverage: update the table in this Markdown page."),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="With coverage: try only ten models.")
    ] = False,
) -> Result:
    """List nearsight's models, or count the cost of one.

    The cost of a model is its number of parameters, tokens and FLOPs per image.

    `nearsight models coverage --out DIR` tries to measure one model from every model file of timm,
    torchvision and Hugging Face, with random weights, each in its own process.
    """
    if name == COVERAGE:
        return _cover(out, page, sample)
    if out or page or sample:
        raise UserError(
            "--out, --page and --sample are only for `nearsight models coverage`; leave them out"
        )
    from nearsight.protocol import option_values

    options = option_values(set_ or [])
    if name is None and (options or image_size):
        raise UserError("--set and --image-size need the name of a model: nearsight models NAME")
    for key, remedy in NOT_SET.items():
        if key in options:
            raise UserError(f"--set does not accept {key}: {remedy}")
    from nearsight.measure.folders import parse_image_size
    from nearsight.models.cost import named_cost, own_names, print_cost, print_names

    if name is None:
        print_names()
        return Result(content=own_names())
    found = named_cost(name, parse_image_size(image_size) if image_size else None, **options)
    print_cost(found)
    return Result(content=found.contents())


def _cover(out: Path | None, page: Path | None, sample: bool) -> Result:
    """Try to measure a model of every model file, and print the outcomes."""
    from nearsight.core import show_progress
    from nearsight.measure.coverage import SAMPLE, coverage_table, run_coverage, write_page

    if out is None:
        raise UserError("`nearsight models coverage` needs a folder for its results: --out DIR")
    with show_progress("trying models") as count:
        rows = run_coverage(out, SAMPLE if sample else None, count, again=("crashed",))
    if page:
        write_page(page, rows)
    print(coverage_table(rows))
    crashed = [row.model for row in rows if row.outcome == "crashed"]
    if crashed:
        raise UserError(
            f"{len(crashed)} of {len(rows)} models crashed ({', '.join(crashed)}); run the same "
            "command to try them again"
        )
    return Result(content=[x.contents() for x in rows])
