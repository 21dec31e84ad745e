"""The command line: one subcommand per stage; parse, call one function, print what was written.

Every error a user can make ends as one sentence on stderr and a non-zero exit code.
NEARSIGHT_TRACEBACK=1 shows where it came from.
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
from nearsight.cli.shared import App, DataRoot, Device, Result
from nearsight.cli.study import study_app
from nearsight.core import UserError, counting, is_out_of_memory

app = App(
    help="How local is a Vision Transformer's attention, what makes it local, is local better?",
    epilog="The road: train -> measure -> report. Every command has --help with an example.",
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


@app.command("protocols", epilog="Example: nearsight protocols modern --data cifar100")
def show_protocols(
    name: Annotated[str | None, typer.Argument(help="A preset to print whole, as YAML.")] = None,
    data: Annotated[str, typer.Option(help="The data set whose values to take.")] = "cifar100",
) -> Result:
    """The presets and what each changes; with a name, all its settings as YAML."""
    from nearsight.protocol import PRESETS, preset, preset_tables, protocol_yaml

    if name is None:
        from rich.console import Console

        Console(highlight=False).print(*preset_tables(data), sep="\n")
    else:
        print(protocol_yaml(preset(name, data)), end="")
    return Result(content=list(PRESETS) if name is None else asdict(preset(name, data)))


@app.command(
    "train",
    epilog="Example: nearsight train modern --data cifar100 --model compact --out runs/modern-0",
)
def train(
    protocol: Annotated[str, typer.Argument(help="A preset, or a YAML file of settings.")],
    out: Annotated[Path, typer.Option(help="The run folder; started again, the run continues.")],
    data: Annotated[
        str | None, typer.Option(help="A data set of `nearsight data list`, or an image folder.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="compact, compact_locat, nano_convit, deit_tiny, any name of timm."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    fraction: Annotated[
        float | None,
        typer.Option(help="Of every class, e.g. 0.1; more epochs make up for it."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Start from this file of weights (fine-tuning).")
    ] = None,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="float32, bf16, fp16 or float64.")] = None,
    compile_: Annotated[bool, typer.Option("--compile", help="Use torch.compile.")] = False,
    parallel: Annotated[
        Literal["ddp", "fsdp"], typer.Option(help="Under torchrun; fsdp shards the weights.")
    ] = "ddp",
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard, wandb or mlflow; may be repeated.")
    ] = None,
    data_root: DataRoot = None,
) -> Result:
    """Train a Vision Transformer by a protocol into a run folder."""
    from nearsight.data.sets import dataset_name
    from nearsight.protocol import at_fraction, override, read_protocol

    named: dict[str, str | None] = {
        "data.name": dataset_name(data, data_root) if data else None,
        "model.name": model,
        "model.weights": str(weights.resolve()) if weights else None,
        "precision": precision,
    }
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    choice = read_protocol(protocol, named["data.name"] or "cifar100")
    choice = override(choice, [*changes, *(set_ or [])])
    if fraction is not None:
        choice = at_fraction(choice, fraction)
    from nearsight.runs import read_record
    from nearsight.train import TRAIN_STAGE

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
    epilog="Example: nearsight measure runs/modern-0    or    "
    "nearsight measure vit_tiny_patch16_224 --weights vit_tiny.safetensors --images DIR",
)
def measure(
    target: Annotated[
        str,
        typer.Argument(
            help="A finished run folder, or a model: a name of ours or timm, timm/NAME, "
            "torchvision/NAME, hf/OWNER/NAME, hf/FOLDER."
        ),
    ],
    images: Annotated[Path | None, typer.Option(help="Folder of images, for a model.")] = None,
    weights: Annotated[Path | None, typer.Option(help="The model's weights.")] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Weights of the hub.")] = False,
    random_init: Annotated[
        bool, typer.Option("--random-init", help="No weights: before any training.")
    ] = False,
    num_images: Annotated[
        int | None, typer.Option(min=2, help="By default up to 1,000; of a run's test set 5,000.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; else that of the run, or runs/NAME.")
    ] = None,
    no_nulls: Annotated[
        bool, typer.Option("--no-nulls", help="Leave out the null lines: a third faster.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a measurement of other images or settings.")
    ] = False,
    no_resize: Annotated[
        bool, typer.Option("--no-resize", help="Take prepared images as they are.")
    ] = False,
    image_size: Annotated[
        str | None, typer.Option(metavar="N or HxW", help="Pixels, if not the model's own.")
    ] = None,
    localise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:VALUE@LAYERS", help="Make a model's attention local: gaussian:1@last3."
        ),
    ] = None,
    convention: Annotated[
        str, typer.Option(help="paper, convit, pixels, keras or cl-vs-mim.")
    ] = "paper",
    metrics: Annotated[
        str, typer.Option(help="default, all, or names with commas between them.")
    ] = "default",
    batch_size: Annotated[int, typer.Option(min=1, help="Images at once.")] = 32,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """How local every attention head is, into measure.json."""
    from nearsight.core import joined
    from nearsight.measure.folders import measure_target
    from nearsight.measure.layout import keeping_places
    from nearsight.report.write import print_measurements
    from nearsight.runs import read_measure

    with (
        joined(device) as world,
        counting(f"measuring {target}") as count,
        keeping_places(progress=lambda done, most: count(done, most, "finding where tokens sit")),
    ):
        path = measure_target(
            target, images, out, weights=weights, pretrained=pretrained, random_init=random_init,
            num_images=num_images, resize=not no_resize, image_size=image_size,
            localise=localise, convention=convention, metrics=metrics, batch_size=batch_size,
            device=str(world.device), data_root=data_root, force=force,
            nulls=not no_nulls, progress=count,
        )  # fmt: skip
    if world.rank == 0:
        print_measurements([path.parent])
        print(path)
    return Result((path,), read_measure(path.parent).summary.contents())


@app.command("diff", epilog="Example: nearsight diff runs/vit-ti runs/deit-ti --out diff.json")
def diff(
    a: Annotated[Path, typer.Argument(help="A measured folder.")],
    b: Annotated[Path, typer.Argument(help="Another, measured on the same images.")],
    out: Annotated[Path | None, typer.Option(help="Write every head to this JSON file.")] = None,
) -> Result:
    """How b differs from a, head by head, with paired 95 % intervals over the images."""
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
app.command("doctor", epilog=DOCTOR_EXAMPLE)(show_doctor)


@app.command("report", epilog="Example: nearsight report runs/baseline-0 runs/modern-0")
def report(
    runs: Annotated[list[Path], typer.Argument(help="Measured run folders.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="Also write files: svg, png, pdf, csv, json, latex."),
    ] = None,
) -> Result:
    """Tables and figures of one or more runs as one self-contained HTML page."""
    from nearsight.explore import write_report
    from nearsight.report.write import print_measurements

    path = write_report(runs, out, tuple(format_ or ()))
    print_measurements(list({run.resolve(): run for run in runs}.values()))
    if format_:
        print(f"{', '.join(format_)} in {path.with_name(f'{path.stem}-files')}")
    print(path)
    return Result((path,))


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 refused, 2 wrong usage, 128 + signal stopped."""
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
    """Say what went wrong in one sentence; anything unforeseen keeps its traceback."""
    if hasattr(error, "show"):  # wrong usage, found by typer
        error.show()
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, typer.Abort):  # Ctrl-C, in versions of typer that raise it
        return _say("stopped", INTERRUPTED)
    if hasattr(error, "exit_code"):  # a run that stopped on a signal
        return _say(str(error), error.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}; what was written before is kept", 1)
    if is_out_of_memory(error):
        return _say(
            "There is not enough memory. Take a smaller batch (train: --set batch_size=N), smaller "
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
