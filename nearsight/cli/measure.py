"""Define the subcommands ``nearsight measure``, ``nearsight diff`` and ``nearsight report``."""

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
from nearsight.core import show_progress

MEASURE_EXAMPLE = examples(
    "nearsight measure runs/modern-0",
    "nearsight measure vit_tiny_patch16_224 --weights vit_tiny.safetensors --images DIR",
)
DIFF_EXAMPLE = examples(
    "nearsight diff runs/baseline-0 runs/modern-0",
    "nearsight diff runs/vit-ti runs/deit-ti --out diff.json",
)
REPORT_EXAMPLE = examples(
    "nearsight report runs/baseline-0 runs/modern-0",
    "nearsight report runs/* --out all.html --format pdf --format csv",
)


def measure(
    target: Annotated[
        str,
        typer.Argument(
            help="A finished run folder, or the name of a model: a name from `nearsight models` or "
            "timm, or timm/NAME, torchvision/NAME, hf/OWNER/NAME or hf/FOLDER."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Measure on the images of this folder. A model needs this option; a run is "
            "measured on its own test images.",
        ),
    ] = None,
    weights: OneWeights = None,
    pretrained: Pretrained = False,
    random_init: RandomInit = False,
    num_images: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Measure this many images. Default: up to 1,000, or 5,000 for a run.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write to this folder. Default: the run's folder, or runs/NAME."
        ),
    ] = None,
    no_nulls: Annotated[
        bool,
        typer.Option(
            "--no-nulls",
            help="Do not measure the null lines (random weights, shuffled patches), which saves "
            "about a third of the time.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite a measurement of other images or settings."),
    ] = False,
    no_resize: Annotated[
        bool, typer.Option("--no-resize", help="Do not resize the images; all must have one size.")
    ] = False,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave out images that cannot be read.")
    ] = False,
    image_size: ImageSize = None,
    localise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS",
            help="Make the model's attention local before measuring, e.g. gaussian:1@last3.",
        ),
    ] = None,
    convention: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Report distances in this convention: paper, convit, pixels, keras or cl-vs-mim.",
        ),
    ] = "paper",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Compute these metrics: default, all, or names separated by commas.",
        ),
    ] = "default",
    batch_size: BatchSize = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Measure how local every attention head is.

    Measures a finished run on the test images of its data, or a model on a folder of images. The
    numbers of every head go to measure.json in the output folder, and a summary is printed.
    """
    from nearsight.core import join_processes
    from nearsight.measure.folders import measure_target
    from nearsight.measure.layout import keep_places
    from nearsight.report.write import print_measurements
    from nearsight.runs import read_measure

    with (
        join_processes(device) as world,
        show_progress(f"measuring {target}") as count,
        keep_places(progress=lambda done, most: count(done, most, "finding where tokens sit")),
    ):
        path = measure_target(
            target, images, out, weights=weights, pretrained=pretrained, random_init=random_init,
            num_images=num_images, resize=not no_resize,
            skip_corrupt=skip_corrupt, image_size=image_size,
            localise=localise, convention=convention, metrics=metrics, batch_size=batch_size,
            device=str(world.device), data_root=data_root, force=force,
            nulls=not no_nulls, progress=count,
        )  # fmt: skip
    if world.rank == 0:
        print_measurements([path.parent])
        print(path)
    return Result((path,), read_measure(path.parent).summary.contents())


def diff(
    a: Annotated[Path, typer.Argument(help="A measured folder.")],
    b: Annotated[Path, typer.Argument(help="Another folder, measured on the same images.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the differences of all heads to this JSON file."),
    ] = None,
) -> Result:
    """Compare two measured models head by head.

    Prints how much B exceeds A in every metric (b − a), with 95 % intervals paired over the images.
    """
    from nearsight.measure.folders import folder_difference
    from nearsight.report.write import print_difference
    from nearsight.runs import write_json

    difference = folder_difference(a, b)
    print_difference(difference)
    if out is not None:
        write_json(out, difference.contents())
        print(out)
    return Result(() if out is None else (out,), difference.contents())


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that `nearsight measure` has measured.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the page to this file.")] = Path(
        "report.html"
    ),
    format_: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Also write the figures (svg, png, pdf) or tables (csv, json, latex) as files. "
            "May be repeated.",
        ),
    ] = None,
) -> Result:
    """Write tables and figures of one or more runs as an HTML page.

    The page is one file that opens from disk without a network. The table of runs is also printed.
    """
    from nearsight.explore import write_report
    from nearsight.report.write import print_measurements

    path = write_report(runs, out, tuple(format_ or ()))
    print_measurements(list({run.resolve(): run for run in runs}.values()))
    if format_:
        print(f"{', '.join(format_)} in {path.with_name(f'{path.stem}-files')}")
    print(path)
    return Result((path,))
