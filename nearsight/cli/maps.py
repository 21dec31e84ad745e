"""The subcommand ``nearsight maps``: parse, call two functions, print what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import Device, Result
from nearsight.core import UserError

EXAMPLE = (
    "Example: nearsight maps vit_tiny_patch16_224 locatvit_tiny --weights vit.safetensors "
    "--weights locat.safetensors --image bus.jpg --patch 4,9 --patch 8,3"
)


def show_maps(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET", help="Run folders or models, as nearsight measure takes them."
        ),
    ],
    image: Annotated[Path | None, typer.Option(help="The image file to look at.")] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Instead of one image: attention averaged over many of a folder."
        ),
    ] = None,
    num_images: Annotated[
        int | None, typer.Option(help="How many of the folder: 100, or all there are.")
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,COL",
            help="A patch of the first target's grid, counted from 1 at the top left; may be "
            "repeated. By default those a quarter, half and three quarters down and to the right; "
            "with --head all the one in the middle.",
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, help="Counted from 1; by default each model's last.")
    ] = None,
    head: Annotated[
        str,
        typer.Option(
            metavar="mean|all|N", help="Counted from 1; all: a column per head, a row per patch."
        ),
    ] = "mean",
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="A model's weights; once per model, in order, not for runs and hf/."),
    ] = None,
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="Weights of the hub, for models without a file.")
    ] = False,
    random_init: Annotated[
        bool, typer.Option("--random-init", help="No weights, for models without a file.")
    ] = False,
    image_size: Annotated[
        str | None, typer.Option(metavar="N or HxW", help="Pixels, if not the models' own.")
    ] = None,
    localise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS",
            help="Show each model also with local attention: gaussian:1@last3.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The figure: .png, .svg or .pdf.")] = Path("maps.png"),
    device: Device = "auto",
) -> Result:
    """Where [CLS] and chosen patches look, models below each other, as a figure.

    Where heads mix content and position (ConViT), a strip above each head's map shows the share of
    position, from white (none) to red (all).
    """
    from nearsight.report.figures.maps import check_format, write_maps

    check_format(out)
    patches = None if not patch else [_place(text) for text in patch]
    index = _head(head)
    from nearsight.core import find_device
    from nearsight.measure.maps import target_maps

    found = target_maps(
        targets, image, patches, None if layer is None else layer - 1, index, images=images,
        num_images=num_images, weights=weights or (), pretrained=pretrained,
        random_init=random_init, image_size=image_size, localise=localise,
        device=str(find_device(device)),
    )  # fmt: skip
    path = write_maps(found, out, (image or images or out).resolve().name, index == "all")
    print(path)
    return Result((path,))


def _place(text: str) -> tuple[int, int]:
    """Row and column counted from 0.

    >>> _place("4, 9")
    (3, 8)
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"expected --patch as ROW,COL, both counted from 1, got {text!r}")
    return int(parts[0]) - 1, int(parts[1]) - 1


def _head(text: str) -> int | Literal["all"] | None:
    """A head counted from 0; None for the mean.

    >>> _head("mean"), _head("3")
    (None, 2)
    """
    if text == "all":
        return "all"
    if text == "mean":
        return None
    if not text.isdecimal() or not int(text):
        raise UserError(f"expected --head as mean, all or a number counted from 1, got {text!r}")
    return int(text) - 1
