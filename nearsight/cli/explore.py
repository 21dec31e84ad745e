"""The subcommand ``nearsight explore``: parse, gather, write the page or serve it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import DataRoot, Device, Result

EXAMPLE = (
    "Example: nearsight explore runs/a runs/b --out look.html    or    "
    "nearsight explore vit_tiny_patch16_224 --weights FILE --images DIR    or    "
    "nearsight explore --serve runs/"
)


def explore(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help="Run folders, folders of runs, studies, or models as nearsight measure has them.",
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A folder of images or one image file. Runs show their own examples without it.",
        ),
    ] = None,
    num_images: Annotated[
        int, typer.Option(min=1, help="The page holds the attention of this many images.")
    ] = 4,
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="The weights of a model by name; once per model, in order."),
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
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("look.html"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the runs of folders instead of writing a page.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve.")] = 8000,
    host: Annotated[
        str,
        typer.Option(help="With --serve: the address to listen on. Others can reach it then."),
    ] = "127.0.0.1",
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Look at where every head attends: one page that opens from disk, without a server."""
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
