"""Define the subcommand ``nearsight localise``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import (
    BatchSize,
    DataRoot,
    Device,
    ImageSize,
    OneWeights,
    Pretrained,
    RandomInit,
    Result,
    examples,
)
from nearsight.core import UserError

EXAMPLE = examples(
    "nearsight localise vit_tiny_patch16_224 --weights FILE --data voc2012",
    "nearsight localise runs/modern-0 --data shapes --widths 0.5,1,2 --depths 1,2",
)


def search(
    target: Annotated[
        str, typer.Argument(help="A run folder, or a model named as for `nearsight measure`.")
    ],
    data: Annotated[
        str,
        typer.Option(metavar="NAME", help="Score on this data set with masks (name or path)."),
    ] = "voc2012",
    task: Annotated[
        str,
        typer.Option(metavar="NAME", help="Score by this task: hummingbird or segmentation."),
    ] = "hummingbird",
    widths: Annotated[
        str,
        typer.Option(metavar="NUMBERS", help="Try these widths of the Gaussian, in patches."),
    ] = "0.5,0.7,1,1.5,2,3",
    depths: Annotated[
        str,
        typer.Option(metavar="NUMBERS", help="Try these numbers of last layers to make local."),
    ] = "1,2,3,4,6",
    memory: Annotated[
        int, typer.Option(min=1, help="Learn from this many training images in the search.")
    ] = 366,
    held_out: Annotated[
        int, typer.Option(min=2, help="Score this many other training images in the search.")
    ] = 207,
    no_val: Annotated[
        bool, typer.Option("--no-val", help="Search only, without scoring the validation images.")
    ] = False,
    num_train: Annotated[
        int | None,
        typer.Option(min=1, help="After the search, learn from this many images. Default: all."),
    ] = None,
    num_val: Annotated[
        int | None, typer.Option(min=2, help="Score this many validation images. Default: all.")
    ] = None,
    accuracy_images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also measure top-1 accuracy on the images of this folder, whose file names "
            "are the numbers of their classes.",
        ),
    ] = None,
    weights: OneWeights = None,
    pretrained: Pretrained = False,
    random_init: RandomInit = False,
    image_size: ImageSize = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write to this folder. Default: runs/NAME-localise."),
    ] = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Find where local attention helps a model, without training.

    Adds a Gaussian to the attention logits of the last layers, tries every combination of --widths
    and --depths on training images, and scores the best one and its controls on the validation
    images. The results go to localise.json and three figures in the output folder.
    """
    widths_wanted, depths_wanted = _numbers(widths, "--widths"), _numbers(depths, "--depths")
    from nearsight.core import find_device
    from nearsight.evaluate import SearchSettings, search_locality
    from nearsight.measure.folders import parse_image_size
    from nearsight.report.figures.localise import write_search_figures
    from nearsight.runs.records import LOCALISE_FILE

    settings = SearchSettings(
        data=data, task=task, widths=widths_wanted, depths=[int(x) for x in depths_wanted],
        num_memory=memory, num_held_out=held_out, val=not no_val, num_train=num_train,
        num_val=num_val, accuracy_images=accuracy_images, data_root=data_root,
        device=str(find_device(device)), batch_size=batch_size,
    )  # fmt: skip
    path = search_locality(
        target, settings, weights=weights, pretrained=pretrained, random_init=random_init,
        image_size=None if image_size is None else parse_image_size(image_size), out=out,
    )  # fmt: skip
    record = LOCALISE_FILE.read(path.parent)
    for remark in record.remarks:
        print(remark)
    written = (*write_search_figures(record, path.parent), path)
    print(*written, sep="\n")
    return Result(written, record.contents())


def _numbers(text: str, option: str) -> list[float]:
    """Return numbers that are separated by commas.

    >>> _numbers("0.5, 1", "--widths")
    [0.5, 1.0]
    """
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UserError(
            f"{option} is {text!r}, but it must be numbers separated by commas, such as 1,2"
        ) from None
