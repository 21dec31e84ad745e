"""The subcommands ``nearsight study``: recipes, what they would run, running them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import App, DataRoot, Device, Result
from nearsight.core import UserError

study_app = App(
    help="Many runs: protocols x models x data sets x seeds, run to the end.",
    epilog="Example: nearsight study run quick --workers 2 --out studies-out/quick",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Recipes = Annotated[Path | None, typer.Option(help="Folder of recipes; else ours.")]
Name = Annotated[str, typer.Argument(help="A study of `study list`, or a file NAME.py.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="0 to N - 1; else as the recipe says.")]
Workers = Annotated[int, typer.Option(min=1, help="Cells at a time, one thread each.")]
Engine = Annotated[
    Literal["local", "ray", "slurm"],
    typer.Option(help="Where cells run: here, on Ray, or as Slurm jobs."),
]
Out = Annotated[Path, typer.Argument(help="A study folder.")]


@study_app.command("list", epilog="Example: nearsight study list")
def list_studies(recipes: Recipes = None) -> Result:
    """The recipes: question, cells, cost, expected numbers."""
    from nearsight.study.design import recipes as found
    from nearsight.study.show import print_recipes

    listed = found(recipes)
    print_recipes(listed)
    return Result(content=[{"name": x.name, "question": x.question, **x.told} for x in listed])


@study_app.command("plan", epilog="Example: nearsight study plan protocol-ablation --seeds 5")
def plan_study(
    name: Name,
    seeds: Seeds = None,
    out: Annotated[Path | None, typer.Option(help="Count what is done in this folder.")] = None,
    workers: Workers = 2,
    recipes: Recipes = None,
    data_root: DataRoot = None,
) -> None:
    """What would run, and how long it takes here; nothing is written."""
    from nearsight.study.design import recipe
    from nearsight.study.run import expected_seconds, planned
    from nearsight.study.show import print_plan

    chosen = None if seeds is None else range(seeds)
    plan = planned(recipe(name, recipes), chosen, out, data_root)
    print_plan(plan, expected_seconds(plan, workers, data_root), workers)


@study_app.command(
    "run", epilog="Example: nearsight study run quick --workers 2 --out studies-out/quick"
)
def run_one(
    name: Name,
    out: Annotated[Path, typer.Option(help="The study folder; run again, it continues.")],
    seeds: Seeds = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Cells at a time: 2 here, else as many as there is room for."),
    ] = None,
    engine: Engine = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, or auto; else one starts here.")
    ] = None,
    device: Annotated[str, typer.Option(help="Of every cell: cpu, cuda, mps.")] = "cpu",
    gpus_per_cell: Annotated[
        float | None, typer.Option(min=0.0, help="For ray (0.25 too) and slurm; 1 if cuda.")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of submitit, such as timeout_min=240; may be repeated.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try cells that failed before once more.")
    ] = False,
    reuse: Annotated[
        Path | None, typer.Option(help="Copy finished cells from this study folder first.")
    ] = None,
    accept_differences: Annotated[
        bool,
        typer.Option("--accept-differences", help="Reuse cells of other software without asking."),
    ] = False,
    recipes: Recipes = None,
    data_root: DataRoot = None,
) -> None:
    """Run every cell that is not finished; again: continues."""
    from nearsight.study.design import recipe
    from nearsight.study.engines import EngineOptions, slurm_parameters
    from nearsight.study.run import run_study
    from nearsight.study.show import print_status

    options = EngineOptions(engine, address, gpus_per_cell, slurm_parameters(slurm or ()))
    chosen = None if seeds is None else range(seeds)
    left = run_study(
        recipe(name, recipes), out, chosen, workers, data_root, device,
        retry_failed=retry_failed, reuse_from=reuse, engine=options,
        accept=_accept(accept_differences),
    )  # fmt: skip
    print_status(out)
    print(out)
    if left:
        raise UserError(
            f"{len(left)} cells of {out} are not finished; --retry-failed tries those that failed"
        )


def _accept(given: bool) -> Callable[[Sequence[str]], bool] | None:
    """Return what answers whether differences are accepted: the option, a person, or nobody."""
    if given:
        return lambda lines: True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(lines: Sequence[str]) -> bool:
        print("Cells to reuse were made with other software:", *lines, sep="\n  ", file=sys.stderr)
        return typer.confirm("Take them over?", err=True)

    return ask


@study_app.command("status", epilog="Example: nearsight study status studies-out/quick")
def show_status(out: Out) -> None:
    """What is finished, running, queued, failed (and why), stopped or waiting."""
    from nearsight.study.show import print_status

    print_status(out)


@study_app.command("report", epilog="Example: nearsight study report studies-out/quick")
def write_page(
    folder: Out,
    out: Annotated[Path | None, typer.Option(help="The page; else report.html in it.")] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="Also svg, png, pdf, csv, json, latex; may be repeated."),
    ] = None,
) -> Result:
    """Figures, effects and tables of what is finished, as one page; numbers in summary.json."""
    from nearsight.study.show import study_report

    path = study_report(folder, out or folder / "report.html", tuple(format_ or ()))
    print(path)
    return Result((path,))


@study_app.command(
    "export", epilog="Example: nearsight study export studies-out/quick --to results/quick"
)
def export(
    folder: Out,
    to: Annotated[Path, typer.Option(help="New or empty, or of the same study.")],
) -> Result:
    """Copy a study to publish it: its JSON and page, no weights, no paths of this machine."""
    from nearsight.study.show import export_study

    path = export_study(folder, to)
    print(path)
    return Result((path,))


@study_app.command(
    "causal", epilog="Example: nearsight study causal runs/modern-0 --head 1.2 --window 3"
)
def causal(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    head: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER.HEAD",
            help="Counted from 1; may be repeated. By default every head, every layer, all heads.",
        ),
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Its side in patches, odd.")] = 3,
    num_images: Annotated[
        int | None, typer.Option(min=2, help="Test images: 1,000, or all there are.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at once.")] = 64,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Is locality used? The accuracy lost when heads look elsewhere, into causal.json and .svg."""
    heads = [_layer_and_head(text) for text in head] if head else None
    from nearsight.core import counting, find_device
    from nearsight.evaluate import CAUSAL_STAGE
    from nearsight.report.figures.study import write_causal_figure
    from nearsight.study.show import print_causal

    with counting(f"changing heads of {run}, passes") as count:
        settings = {
            "heads": heads, "window": window, "num_images": num_images, "batch_size": batch_size,
            "device": str(find_device(device)), "data_root": data_root, "progress": count,
        }  # fmt: skip
        path = CAUSAL_STAGE.run(run, settings)
    write_causal_figure(run)
    print_causal(run)
    print(path)
    return Result((path,))


def _layer_and_head(text: str) -> tuple[int, int]:
    """Layer and head counted from 0.

    >>> _layer_and_head("2.1")
    (1, 0)
    """
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"expected --head as LAYER.HEAD, both counted from 1, got {text!r}")
    return int(parts[0]) - 1, int(parts[1]) - 1


@study_app.command("claims", epilog="Example: nearsight study claims studies-out/ablation")
def show_claims(
    folder: Out,
    all_: Annotated[
        bool, typer.Option("--all", help="Also the claims that this study says nothing about.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Also every sentence, source, number and reason.")
    ] = False,
) -> Result:
    """What the study says of the papers' claims; every verdict goes into claims.json."""
    from nearsight.study.analyse import load_study
    from nearsight.study.claims import write_claims
    from nearsight.study.show import print_verdicts

    path, found = write_claims(load_study(folder))
    print_verdicts(found, all_, details)
    print(path)
    return Result((path,), [x.contents() for x in found if all_ or x.findings])
