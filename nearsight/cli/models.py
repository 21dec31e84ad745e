"""The subcommand ``nearsight models``: parse, call one function, print what it costs."""

from __future__ import annotations

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


def show_models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A model to count: a name of ours or timm, timm/NAME, torchvision/NAME, "
            "hf/OWNER/NAME, hf/FOLDER."
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
) -> Result:
    """Our names; with a name, its parameters, tokens and FLOPs per image."""
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
