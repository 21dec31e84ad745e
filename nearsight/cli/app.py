"""Define the command ``nearsight`` and its main subcommands, one per stage.

A mistake of the user is reported as one line on stderr with a non-zero exit code. Set the
environment variable NEARSIGHT_TRACEBACK=1 to see the traceback.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.data import data_app
from nearsight.cli.demo import EXAMPLE as DEMO_EXAMPLE
from nearsight.cli.demo import show_demo
from nearsight.cli.doctor import EXAMPLE as DOCTOR_EXAMPLE
from nearsight.cli.doctor import show_doctor
from nearsight.cli.evaluate import EXAMPLE as EVALUATE_EXAMPLE
from nearsight.cli.evaluate import evaluate
from nearsight.cli.explore import EXAMPLE as EXPLORE_EXAMPLE
from nearsight.cli.explore import explore
from nearsight.cli.localise import EXAMPLE as LOCALISE_EXAMPLE
from nearsight.cli.localise import search
from nearsight.cli.maps import EXAMPLE as MAPS_EXAMPLE
from nearsight.cli.maps import show_maps
from nearsight.cli.models import EXAMPLE as MODELS_EXAMPLE
from nearsight.cli.models import show_models
from nearsight.cli.papers import EXAMPLE as PAPERS_EXAMPLE
from nearsight.cli.papers import list_papers
from nearsight.cli.shared import (
    App,
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
from nearsight.cli.study import study_app
from nearsight.core import UserError, counting, is_out_of_memory

app = App(
    help="Measure how local a Vision Transformer's attention is, and find out what makes it local.",
    epilog="Start with `nearsight demo`. For runs of your own use train, then measure, then "
    "report. `nearsight COMMAND --help` shows the options of a command, with examples.\n\n"
    + examples(
        "nearsight demo",
        "nearsight measure vit_tiny_patch16_224 --weights vit_tiny.safetensors --images DIR",
    ),
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(study_app, name="study")

BUG_NOTE = (
    "This is a bug in nearsight. Please report it with the command and the traceback above; "
    "`nearsight doctor` prints the versions to add."
)
INTERRUPTED = 130  # exit code after Ctrl-C


@app.callback(invoke_without_command=True)
def _nearsight(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from nearsight import __version__

        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


app.command("demo", epilog=DEMO_EXAMPLE)(show_demo)


@app.command(
    "protocols",
    epilog=examples("nearsight protocols", "nearsight protocols modern --data cifar10 > my.yaml"),
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

    The list shows what each preset changes. Save the YAML to a file, edit it, and give the file to
    `nearsight train`.
    """
    from nearsight.protocol import PRESETS, preset, preset_tables, protocol_yaml, schedule_text

    if plot and name is None:
        raise UserError("--plot needs the name of a preset: nearsight protocols NAME --plot.")
    if name is None:
        from rich.console import Console

        Console(highlight=False).print(*preset_tables(data), sep="\n")
    elif plot:
        print(schedule_text(preset(name, data)))
    else:
        print(protocol_yaml(preset(name, data)), end="")
    return Result(content=list(PRESETS) if name is None else asdict(preset(name, data)))


@app.command(
    "train",
    epilog=examples(
        "nearsight train modern --data cifar100 --model compact --out runs/modern-0",
        "nearsight train baseline --data shapes --set epochs=20 --seed 1 --out runs/shapes-1",
        "nearsight train dino --model locatvit_small --data DIR",
    ),
)
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
            help="Train on this data set: a name of `nearsight data list`, or the path of an image "
            "folder. Default: that of the settings, cifar100 for a preset.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train this model: one of `nearsight models` (compact, compact_locat, "
            "nano_convit, ...) or of timm. Default: that of the settings.",
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
            help="Train in float32, bf16, fp16 or float64. Default: that of the settings.",
        ),
    ] = None,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile the model with torch.compile.")
    ] = False,
    parallel: Annotated[
        Literal["ddp", "fsdp"],
        typer.Option(
            help="Under torchrun, give every process a copy of the model (ddp) or a part (fsdp)."
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

    If the folder contains an unfinished run with the same settings, training continues where it
    stopped.
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


@app.command(
    "measure",
    epilog=examples(
        "nearsight measure runs/modern-0",
        "nearsight measure vit_tiny_patch16_224 --weights vit_tiny.safetensors --images DIR",
    ),
)
def measure(
    target: Annotated[
        str,
        typer.Argument(
            help="A finished run folder, or a model: one of `nearsight models` or timm, timm/NAME, "
            "torchvision/NAME, hf/OWNER/NAME, hf/FOLDER."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Measure a model on the images of this folder. A run is measured on its own data.",
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
            help="Do not measure the null lines (random weights, shuffled patches). Saves about a "
            "third of the time.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite a measurement of other images or settings."),
    ] = False,
    no_resize: Annotated[
        bool, typer.Option("--no-resize", help="Use the images at the size they have.")
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
        counting(f"measuring {target}") as count,
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


@app.command(
    "diff",
    epilog=examples(
        "nearsight diff runs/baseline-0 runs/modern-0",
        "nearsight diff runs/vit-ti runs/deit-ti --out diff.json",
    ),
)
def diff(
    a: Annotated[Path, typer.Argument(help="A measured folder.")],
    b: Annotated[Path, typer.Argument(help="Another folder, measured on the same images.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the differences of all heads to this JSON file."),
    ] = None,
) -> Result:
    """Compare two measured models head by head.

    Each difference is b minus a, with a paired 95 % interval over the images.
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


app.command("evaluate", epilog=EVALUATE_EXAMPLE)(evaluate)
app.command("explore", epilog=EXPLORE_EXAMPLE)(explore)
app.command("localise", epilog=LOCALISE_EXAMPLE)(search)
app.command("maps", epilog=MAPS_EXAMPLE)(show_maps)
app.command("models", epilog=MODELS_EXAMPLE)(show_models)
app.command("papers", epilog=PAPERS_EXAMPLE)(list_papers)
app.command("doctor", epilog=DOCTOR_EXAMPLE)(show_doctor)


@app.command(
    "report",
    epilog=examples(
        "nearsight report runs/baseline-0 runs/modern-0",
        "nearsight report runs/* --out all.html --format pdf --format csv",
    ),
)
def report(
    runs: Annotated[list[Path], typer.Argument(help="Measured run folders.")],
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

    The page is one file that opens without a network, and the table of runs is also printed.
    """
    from nearsight.explore import write_report
    from nearsight.report.write import print_measurements

    path = write_report(runs, out, tuple(format_ or ()))
    print_measurements(list({run.resolve(): run for run in runs}.values()))
    if format_:
        print(f"{', '.join(format_)} in {path.with_name(f'{path.stem}-files')}")
    print(path)
    return Result((path,))


def main() -> None:
    """Run the command line and exit.

    The exit code is 0 after success, 1 after an error, 2 after wrong usage, and 128 plus the number
    of the signal if a signal stopped the command.
    """
    try:
        code = app(standalone_mode=False, prog_name="nearsight")
        if code == INTERRUPTED:
            _say("stopped", code)
    except Exception as error:
        if os.environ.get("NEARSIGHT_TRACEBACK"):
            raise
        code = _exit_code(error)
    sys.exit(code or 0)


def _exit_code(error: Exception) -> int:
    """Print a known error in one line and return its exit code. Raise an unknown error again."""
    if hasattr(error, "show"):  # wrong usage, found by typer
        error.show()
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, typer.Abort):  # Ctrl-C, in versions of typer that raise it
        return _say("stopped", INTERRUPTED)
    if hasattr(error, "exit_code"):  # a run that stopped on a signal
        return _say(str(error), error.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}. Files written earlier are kept.", 1)
    if is_out_of_memory(error):
        return _say(
            "There is not enough memory. Use a smaller batch (train: --set batch_size=N), smaller "
            "images or a smaller model.",
            1,
        )
    if isinstance(error, UserError):
        return _say(str(error), 1)
    error.add_note(BUG_NOTE)
    raise error


def _say(sentence: str, code: int) -> int:
    print(f"nearsight: {sentence}", file=sys.stderr)
    return code
