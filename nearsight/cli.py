"""The command line: one subcommand per stage; parse, call one function, print what was written.

Every error a user can make ends as one sentence on stderr and a non-zero exit code.
NEARSIGHT_TRACEBACK=1 shows where it came from.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.progress import counting

app = typer.Typer(
    help="How local is a Vision Transformer's attention, what makes it local, is local better?",
    epilog="The road: train -> measure -> report. Every command has --help with an example.",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Fetch, list, check and import data sets.", rich_markup_mode=None)
app.add_typer(data_app, name="data")

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets; else $NEARSIGHT_DATA or ~/.cache/nearsight/data."),
]
INTERRUPTED = 130  # exit code after Ctrl-C
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]


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


@app.command("protocols", epilog="Example: nearsight protocols modern --data cifar100")
def show_protocols(
    name: Annotated[str | None, typer.Argument(help="A preset to print whole, as YAML.")] = None,
    data: Annotated[str, typer.Option(help="The data set whose values to take.")] = "cifar100",
) -> None:
    """The presets and what each changes; with a name, all its settings as YAML."""
    from nearsight.protocol.listing import preset_table
    from nearsight.protocol.overrides import protocol_yaml
    from nearsight.protocol.presets import preset

    if name is None:
        from rich.console import Console

        Console(highlight=False).print(preset_table(data))
    else:
        print(protocol_yaml(preset(name, data)), end="")


@app.command(
    "train",
    epilog="Example: nearsight train modern --data cifar100 --model compact --out runs/modern-0",
)
def train(
    protocol: Annotated[str, typer.Argument(help="A preset, or a YAML file of settings.")],
    out: Annotated[Path, typer.Option(help="The run folder; started again, the run continues.")],
    data: Annotated[
        str | None, typer.Option(help="cifar10, cifar100, tiny-imagenet, shapes or a folder.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="compact, nano, mu, or any name of timm.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Start from these safetensors (fine-tuning).")
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
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    data_root: DataRoot = None,
) -> None:
    """Train a Vision Transformer by a protocol into a run folder."""
    from nearsight.data.catalog import dataset_name
    from nearsight.protocol.overrides import override, read_protocol

    named: dict[str, str | None] = {
        "data.name": dataset_name(data) if data else None,
        "model.name": model,
        "model.weights": str(weights.resolve()) if weights else None,
        "precision": precision,
    }
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    choice = read_protocol(protocol, named["data.name"] or "cifar100")
    choice = override(choice, [*changes, *(set_ or [])])
    import torch

    from nearsight.train.loop import train_run

    if threads is not None:
        torch.set_num_threads(threads)
    folder = train_run(
        choice, out, seed=seed, device=device, data_root=data_root, compiled=compile_,
        parallel=parallel, trackers=tuple(track or ()),
    )  # fmt: skip
    if int(os.environ.get("RANK", "0")) == 0:
        print(folder)


@app.command("measure", epilog="Example: nearsight measure runs/modern-0 --num-images 1000")
def measure(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    num_images: Annotated[
        int | None, typer.Option(min=2, help="Test images; by default 5,000 or all.")
    ] = None,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> None:
    """MAD, entropy and self-mass of every attention head, into measure.json."""
    from nearsight.measure.profile import measure_run
    from nearsight.report.terminal import print_measurements
    from nearsight.train.distributed import find_device

    with counting(f"measuring {run}") as count:
        path = measure_run(
            run, num_images, device=str(find_device(device)), data_root=data_root, progress=count
        )
    print_measurements([run])
    print(path)


@app.command("report", epilog="Example: nearsight report runs/baseline-0 runs/modern-0")
def report(
    runs: Annotated[list[Path], typer.Argument(help="Measured run folders.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="Also write files: svg, png, pdf, csv, json, latex."),
    ] = None,
) -> None:
    """Tables and figures of one or more runs as one self-contained HTML page."""
    from nearsight.report.page import write_report
    from nearsight.report.terminal import print_measurements

    path = write_report(runs, out, tuple(format_ or ()))
    print_measurements(runs)
    print(path)


@data_app.command("list", epilog="Example: nearsight data list")
def list_data(data_root: DataRoot = None) -> None:
    """The data sets nearsight knows, and which of them are here."""
    from nearsight.data.catalog import list_datasets

    for row in list_datasets(data_root):
        print(f"{row.name:15}{row.state:10}{row.place}")


@data_app.command("fetch", epilog="Example: nearsight data fetch cifar100")
def fetch_data(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100 or tiny-imagenet.")],
    data_root: DataRoot = None,
) -> None:
    """Download, check and unpack a data set; started again, the download continues."""
    from nearsight.data.archive import fetch_dataset

    with counting(f"fetching {name}", megabytes=True) as count:
        folder = fetch_dataset(name, data_root, progress=count)
    print(folder)


@data_app.command("check", epilog="Example: nearsight data check cifar100")
def check_data(
    name: Annotated[str, typer.Argument(help="A data set, or the path of an image folder.")],
    data_root: DataRoot = None,
) -> None:
    """Read a data set whole and say whether it is the official one."""
    from nearsight.data.catalog import check_dataset, dataset_name

    found = check_dataset(dataset_name(name), data_root)
    print(
        f"{found.name}: {found.verdict}, {found.num_train} training and {found.num_test} test "
        f"images of {found.num_classes} classes, hash {found.hash}"
    )
    for note in found.notes:
        print(note)


@data_app.command("import", epilog="Example: nearsight data import ~/cifar-100-binary.tar.gz")
def import_data(
    given: Annotated[Path, typer.Argument(help="An unpacked folder or an official archive.")],
    data_root: DataRoot = None,
) -> None:
    """Copy a data set you already have to where nearsight looks for it."""
    from nearsight.data.archive import import_folder

    print(import_folder(given, data_root))


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
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
        return _say("not enough memory; a smaller --set batch_size=N may fit", 1)
    if isinstance(error, ValueError):
        return _say(str(error), 1)
    raise error


def _say(sentence: str, code: int) -> int:
    print(f"nearsight: {sentence}", file=sys.stderr)
    return code
