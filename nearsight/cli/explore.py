"""Define the subcommand ``nearsight explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import (
    DataRoot,
    Device,
    ImageSize,
    ManyWeights,
    Pretrained,
    RandomInit,
    Result,
    examples,
)

EXAMPLE = examples(
    "nearsight explore runs/a runs/b --out look.html",
    "nearsight explore vit_tiny_patch16_224 --weights FILE --images DIR",
    "nearsight explore --serve runs/",
)


def explore(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help="Run folders, folders of runs, study folders, or models named as for `nearsight "
            "measure`.",
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Show the attention on these images: a folder or one file. A run needs none; its "
            "stored example images are shown by default.",
        ),
    ] = None,
    num_images: Annotated[
        int, typer.Option(min=1, help="Store the attention on this many images in the page.")
    ] = 4,
    weights: ManyWeights = None,
    pretrained: Pretrained = False,
    random_init: RandomInit = False,
    image_size: ImageSize = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the page to this file.")] = Path(
        "look.html"
    ),
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Show all runs in the given folders on a local web server instead of writing a "
            "page.",
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --serve: listen on this port.")
    ] = 8000,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="With --serve: listen on this address. Other machines can connect unless it is "
            "127.0.0.1.",
        ),
    ] = "127.0.0.1",
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Write a web page that shows where every head attends.

    The page is one file that opens from disk without a network. With --serve, a local web server
    shows all runs in the given folders.
    """
    if serve:
        from nearsight.explore import serve_folders

        serve_folders([Path(target) for target in targets], host, port, data_root)
        return Result()
    from nearsight.core import find_device
    from nearsight.explore import explore_targets

    found = explore_targets(
        targets, images, num_images=num_images, weights=weights or (), pretrained=pretrained,
        random_init=random_init, image_size=image_size, device=str(find_device(device)),
        data_root=data_root,
    )  # fmt: skip
    path = found.write(out)
    print(path)
    return Result((path,))
