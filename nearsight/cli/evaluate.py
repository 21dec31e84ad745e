"""Define the subcommand ``nearsight evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import (
    BatchSize,
    DataRoot,
    Device,
    ImageSize,
    ManyWeights,
    Pretrained,
    RandomInit,
    Result,
    examples,
)
from nearsight.core import UserError, show_progress

EXAMPLE = examples(
    "nearsight evaluate runs/locat-0 runs/vit-0 --task segmentation,hummingbird",
    "nearsight evaluate vit_tiny_patch16_224 --weights FILE --task knn --data cifar100",
)


def evaluate(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET", help="Run folders, or models named as for `nearsight measure`."
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Run these tasks, separated by commas: segmentation, hummingbird, knn, linear, "
            "occlusion, class-attention.",
        ),
    ] = "segmentation",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Evaluate on this data set (name or path). Default for tasks with masks: "
            "voc2012. Default for tasks with labels: the data that a run was trained on, or "
            "cifar100 for other models.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Use these methods of the task, separated by commas, or all. Default: the task's "
            "main method.",
        ),
    ] = None,
    layer: Annotated[
        str,
        typer.Option(
            metavar="LAYERS",
            help="Take the features of these layers: last, all, or numbers counted from 1 "
            "(1,6,12).",
        ),
    ] = "last",
    place: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Take the features after the layer's block (block), after the final norm (norm), "
            "after PRR (prr), or where the classifier reads them (final). Default: what the method "
            "prescribes.",
        ),
    ] = None,
    statistics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Normalise images with the mean and deviation of the model (own) or of ImageNet "
            "(imagenet). Default: what the method prescribes.",
        ),
    ] = None,
    image_size: ImageSize = None,
    num_train: Annotated[
        int | None, typer.Option(min=1, help="Fit on this many training images. Default: all.")
    ] = None,
    num_val: Annotated[
        int | None, typer.Option(min=2, help="Score this many images. Default: all.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set an option of a method, such as k=10. May be repeated.",
        ),
    ] = None,
    localise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS",
            help="Also evaluate each model with its attention made local, and compare, e.g. "
            "gaussian:1@last3, window:3@all or outside:3@10-12. May be repeated.",
        ),
    ] = None,
    weights: ManyWeights = None,
    pretrained: Pretrained = False,
    random_init: RandomInit = False,
    no_controls: Annotated[
        bool, typer.Option("--no-controls", help="Leave out the controls, such as random weights.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the results to this folder, for a single model. Default: the run's folder, "
            "or runs/NAME.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write the figures of the results to this folder, as SVG."
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the expected time and disk space, and stop.")
    ] = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Test how useful a model's frozen features are for other tasks.

    Scores have 95 % intervals over images, and differences between models are paired by image. By
    default controls are scored too, such as the same model with random weights. The results go to
    evaluate.json in each model's folder.
    """
    from nearsight.core import find_device
    from nearsight.evaluate import evaluate_targets
    from nearsight.evaluate.benches import Settings
    from nearsight.measure.folders import parse_image_size
    from nearsight.report.write import print_evaluations, write_evaluation_figures

    settings = Settings(
        tasks=task, data=data, method=method, layer=layer, place=place, statistics=statistics,
        num_train=num_train, num_val=num_val, options=_options(set_ or []),
        controls=not no_controls, data_root=data_root, device=str(find_device(device)),
        batch_size=batch_size,
    )  # fmt: skip
    with show_progress("evaluating") as count:
        found = evaluate_targets(
            targets, settings, weights=weights or (), pretrained=pretrained,
            random_init=random_init,
            image_size=None if image_size is None else parse_image_size(image_size),
            localise=localise or (), out=out, estimate=estimate, progress=count,
        )  # fmt: skip
    if estimate:
        return Result()
    folders = [folder for folder, _ in found]
    asked = {(x.task, x.method) for _, evaluation in found for x in evaluation.outcomes}
    print_evaluations(folders, asked)
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
