"""The subcommand ``nearsight localise``: parse, call one function, print what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import DataRoot, Device, Result
from nearsight.core import UserError

EXAMPLE = "Example: nearsight localise vit_tiny_patch16_224 --weights FILE --data voc2012"


def search(
    target: Annotated[
        str, typer.Argument(help="A run folder or a model, as nearsight measure takes it.")
    ],
    data: Annotated[str, typer.Option(help="Data set with masks, by name or path.")] = "voc2012",
    task: Annotated[
        str, typer.Option(help="hummingbird, or segmentation for its default method.")
    ] = "hummingbird",
    widths: Annotated[
        str, typer.Option(help="Widths of the Gaussian in patches, with commas.")
    ] = "0.5,0.7,1,1.5,2,3",
    depths: Annotated[
        str, typer.Option(help="How many last layers are made local, with commas.")
    ] = "1,2,3,4,6",
    memory: Annotated[
        int, typer.Option(min=1, help="Training images to learn from while searching.")
    ] = 366,
    held_out: Annotated[
        int, typer.Option(min=2, help="Other training images, scored while searching.")
    ] = 207,
    no_val: Annotated[
        bool, typer.Option("--no-val", help="Search only; score nothing on val.")
    ] = False,
    num_train: Annotated[
        int | None, typer.Option(min=1, help="Training images for val; else all.")
    ] = None,
    num_val: Annotated[
        int | None, typer.Option(min=2, help="Images of val that are scored; else all.")
    ] = None,
    accuracy_images: Annotated[
        Path | None,
        typer.Option(help="Images named by the number of their class, for top-1 accuracy."),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="The model's weights.")] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Weights of the hub.")] = False,
    random_init: Annotated[
        bool, typer.Option("--random-init", help="No weights: before any training.")
    ] = False,
    image_size: Annotated[
        str | None, typer.Option(metavar="N or HxW", help="Pixels, if not the model's own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; else runs/NAME-localise.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at once.")] = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Find the width and the layers at which local attention helps, without training."""
    widths_wanted, depths_wanted = _numbers(widths, "--widths"), _numbers(depths, "--depths")
    from nearsight.core import find_device
    from nearsight.evaluate import SearchSettings, search_locality
    from nearsight.measure.folders import sides
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
        image_size=None if image_size is None else sides(image_size), out=out,
    )  # fmt: skip
    record = LOCALISE_FILE.read(path.parent)
    for remark in record.remarks:
        print(remark)
    written = (*write_search_figures(record, path.parent), path)
    print(*written, sep="\n")
    return Result(written, record.contents())


def _numbers(text: str, option: str) -> list[float]:
    """Numbers with commas between them.

    >>> _numbers("0.5, 1", "--widths")
    [0.5, 1.0]
    """
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"{option} is {text!r}, but it must be numbers with commas") from None
