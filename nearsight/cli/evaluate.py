"""The subcommand ``nearsight evaluate``: parse, call one function, print what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import DataRoot, Device, Result
from nearsight.core import UserError, counting

EXAMPLE = (
    "Example: nearsight evaluate runs/locat-0 runs/vit-0 --task segmentation,hummingbird "
    "--data voc2012    or    nearsight evaluate vit_tiny_patch16_224 --weights FILE "
    "--task segmentation --method all --data voc2012"
)


def evaluate(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET", help="Run folders or models, as nearsight measure takes them."
        ),
    ],
    task: Annotated[
        str,
        typer.Option(help="segmentation, hummingbird, knn, linear, ...; with commas."),
    ] = "segmentation",
    data: Annotated[
        str | None,
        typer.Option(help="Data set by name or path; else voc2012 for masks, cifar100 for labels."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Methods of a task with commas, or all; else its own.")
    ] = None,
    layer: Annotated[
        str, typer.Option(help="last, all, or numbers counted from 1 with commas.")
    ] = "last",
    place: Annotated[
        str | None,
        typer.Option(help="block, norm (after the final norm) or prr; else as the method has it."),
    ] = None,
    statistics: Annotated[
        str | None, typer.Option(help="Mean and deviation of the input: own or imagenet.")
    ] = None,
    image_size: Annotated[
        str | None, typer.Option(metavar="N or HxW", help="Pixels, if not the model's own.")
    ] = None,
    num_train: Annotated[int | None, typer.Option(min=1, help="Training images; else all.")] = None,
    num_val: Annotated[int | None, typer.Option(min=2, help="Scored images; else all.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of a method; repeatable."),
    ] = None,
    localise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS",
            help="Also evaluate each model with local attention, and by how much that differs: "
            "gaussian:1@last3, window:3@all, outside:3@10-12; repeatable.",
        ),
    ] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Weights, once for each model in their order.")
    ] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Weights of the hub.")] = False,
    random_init: Annotated[
        bool, typer.Option("--random-init", help="No weights: before any training.")
    ] = False,
    no_controls: Annotated[
        bool, typer.Option("--no-controls", help="Leave out the controls.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write for a model; else runs/NAME.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder to draw figures into; else they are in the report.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at once.")] = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """What frozen features are good for, with controls and paired intervals."""
    from nearsight.core import find_device
    from nearsight.evaluate import evaluate_targets
    from nearsight.evaluate.evaluation import Settings
    from nearsight.measure.folders import sides
    from nearsight.report.write import print_evaluations, write_evaluation_figures

    settings = Settings(
        tasks=task, data=data, method=method, layer=layer, place=place, statistics=statistics,
        num_train=num_train, num_val=num_val, options=_options(set_ or []),
        controls=not no_controls, data_root=data_root, device=str(find_device(device)),
        batch_size=batch_size,
    )  # fmt: skip
    with counting("evaluating") as count:
        found = evaluate_targets(
            targets, settings, weights=weights or (), pretrained=pretrained,
            random_init=random_init, image_size=None if image_size is None else sides(image_size),
            localise=localise or (), out=out, progress=count,
        )  # fmt: skip
    folders = [folder for folder, _ in found]
    print_evaluations(folders)
    for remark in dict.fromkeys(x for _, evaluation in found for x in evaluation.remarks):
        print(remark)
    for folder in folders:
        print(folder / "evaluate.json")
    drawn = [] if figures is None else write_evaluation_figures(folders, figures)
    for path in drawn:
        print(path)
    return Result((*(folder / "evaluate.json" for folder in folders), *drawn))


def _options(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"--set is {word!r}, but it must be NAME=VALUE")
        found[name] = value
    return found
