"""Define the subcommand ``nearsight maps``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import (
    Device,
    ImageSize,
    ManyWeights,
    Pretrained,
    RandomInit,
    Result,
    examples,
)
from nearsight.core import UserError

EXAMPLE = examples(
    "nearsight maps runs/vit-0 runs/locat-0 --image bus.jpg --patch 4,9 --patch 8,3",
    "nearsight maps vit_tiny_patch16_224 --weights FILE --images DIR --head all",
)


def show_maps(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET", help="Run folders, or models named as for `nearsight measure`."
        ),
    ],
    image: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Show the attention on this image. Give this option or --images."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Show the mean attention over the images of this folder instead.",
        ),
    ] = None,
    num_images: Annotated[
        int | None,
        typer.Option(help="With --images: average over this many images. Default: up to 100."),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,COL",
            help="Show where this patch attends. Rows and columns are those of the first target's "
            "grid, counted from 1 at the top left. May be repeated. Default: three patches on the "
            "diagonal, or with --head all the patch in the middle.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(min=1, help="Show this layer, counted from 1. Default: each model's last."),
    ] = None,
    head: Annotated[
        str,
        typer.Option(
            metavar="mean|all|N",
            help="Show the mean over heads (mean), every head in a column of its own (all), or the "
            "head with this number, counted from 1.",
        ),
    ] = "mean",
    weights: ManyWeights = None,
    pretrained: Pretrained = False,
    random_init: RandomInit = False,
    image_size: ImageSize = None,
    localise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS",
            help="Also show each model with local attention, e.g. gaussian:1@last3.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Write the figure to this .png, .svg or .pdf file.")
    ] = Path("maps.png"),
    device: Device = "auto",
) -> Result:
    """Draw where [CLS] and chosen patches attend.

    The models are drawn below each other. If heads mix content and position (ConViT), a strip above
    each head's map shows the share of position, from white (none) to red (all).
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
    """Return a row and column counted from 0.

    >>> _place("4, 9")
    (3, 8)
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"--patch is {text!r}, but it must be ROW,COL, both counted from 1")
    return int(parts[0]) - 1, int(parts[1]) - 1


def _head(text: str) -> int | Literal["all"] | None:
    """Return a head counted from 0, or None for the mean over heads.

    >>> _head("mean"), _head("3")
    (None, 2)
    """
    if text == "all":
        return "all"
    if text == "mean":
        return None
    if not text.isdecimal() or not int(text):
        raise UserError(f"--head is {text!r}, but it must be mean, all, or a number counted from 1")
    return int(text) - 1
