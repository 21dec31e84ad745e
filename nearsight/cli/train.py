"""Define the subcommands ``nearsight protocols`` and ``nearsight train``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import (
    DataRoot,
    Device,
    Result,
    examples,
)
from nearsight.core import UserError

PROTOCOLS_EXAMPLE = examples(
    "nearsight protocols", "nearsight protocols modern --data cifar10 > my.yaml"
)
TRAIN_EXAMPLE = examples(
    "nearsight train modern --data cifar100 --model compact --out runs/modern-0",
    "nearsight train baseline --data shapes --set epochs=20 --seed 1 --out runs/shapes-1",
    "nearsight train dino --model locatvit_small --data DIR",
)


def show_protocols(
    name: Annotated[str | None, typer.Argument(help="The preset to print as YAML.")] = None,
    data: Annotated[
        str,
        typer.Option(metavar="NAME", help="Print the settings of the preset for this data set."),
    ] = "cifar100",
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the preset's schedule instead of its settings.")
    ] = False,
) -> Result:
    """List the presets, or print all settings of one as YAML.

    The list shows what each preset changes. To change more settings, save the YAML to a file, edit
    it, and give the file to `nearsight train`.
    """
    from nearsight.protocol import PRESETS, preset, preset_tables, protocol_yaml, schedule_text

    if plot and name is None:
        raise UserError("--plot needs the name of a preset: nearsight protocols NAME --plot")
    if name is None:
        from rich.console import Console

        Console(highlight=False).print(*preset_tables(data), sep="\n")
    elif plot:
        print(schedule_text(preset(name, data)))
    else:
        print(protocol_yaml(preset(name, data)), end="")
    return Result(content=list(PRESETS) if name is None else asdict(preset(name, data)))


def train(
    protocol: Annotated[str, typer.Argument(help="A preset, or a YAML file of settings.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write or continue the run in this folder. Default: runs/PROTOCOL-MODEL-SEED.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train on this data set: a name from `nearsight data list`, or the path of an "
            "image folder. Default: the data set in the YAML file, or cifar100 for a preset.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train this model: a name from `nearsight models` (compact, compact_locat, "
            "nano_convit, ...) or timm. Default: the model in the settings.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed for initial weights, data order and augmentation.")
    ] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the protocol, such as epochs=20. May be repeated.",
        ),
    ] = None,
    fraction: Annotated[
        float | None,
        typer.Option(
            help="Train on this fraction of each class (e.g. 0.1). The number of epochs is scaled "
            "up so that the same number of images is seen."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Start from the weights in this file, to fine-tune a model."
        ),
    ] = None,
    device: Device = "auto",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Train in float32, bf16, fp16 or float64. Default: the precision in the settings.",
        ),
    ] = None,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile the model with torch.compile.")
    ] = False,
    parallel: Annotated[
        Literal["ddp", "fsdp"],
        typer.Option(
            help="Under torchrun: give every process a copy of the model (ddp), or a part of it "
            "(fsdp)."
        ),
    ] = "ddp",
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Also log to tensorboard, wandb or mlflow. May be repeated."
        ),
    ] = None,
    data_root: DataRoot = None,
) -> Result:
    """Train a Vision Transformer and write a run folder.

    The folder gets the settings (run.json), the log (train.jsonl) and the weights. If it already
    contains an unfinished run with the same settings, training continues where it stopped.
    """
    from nearsight.data.sets import dataset_name
    from nearsight.protocol import at_fraction, override, read_protocol

    named: dict[str, str | None] = {
        "data.name": dataset_name(data, data_root) if data else None,
        "model.name": model,
        "model.weights": str(weights.resolve()) if weights else None,
        "precision": precision,
    }
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    choice = read_protocol(protocol, named["data.name"] or "cifar100", model)
    choice = override(choice, [*changes, *(set_ or [])])
    if fraction is not None:
        choice = at_fraction(choice, fraction)
    from nearsight.runs import read_record
    from nearsight.train import TRAIN_STAGE

    out = out or Path("runs", f"{choice.name}-{choice.model.name}-{seed}".replace("/", "-"))
    settings = {
        "protocol": choice, "seed": seed, "device": device, "data_root": data_root,
        "compiled": compile_, "parallel": parallel, "trackers": tuple(track or ()),
    }  # fmt: skip
    TRAIN_STAGE.run(out, settings)
    if int(os.environ.get("RANK", "0")) == 0:
        print(out)
    return Result((out,), read_record(out).contents().get("result"))
