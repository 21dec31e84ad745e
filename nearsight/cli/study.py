"""Define the subcommands of ``nearsight study``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import App, BatchSize, DataRoot, Device, Result, examples
from nearsight.core import UserError

study_app = App(
    help="Plan, run and analyse many runs at once.",
    epilog="A study runs the conditions of a recipe with several seeds; a cell is one of these "
    "runs. Begin with `nearsight study list`.\n\n"
    + examples("nearsight study plan quick", "nearsight study run quick --out studies-out/quick"),
    no_args_is_help=True,
    rich_markup_mode=None,
)
Recipes = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Read recipes from this folder. Default: nearsight's own."),
]
Name = Annotated[str, typer.Argument(help="A recipe of `nearsight study list`, or a file NAME.py.")]
ScaleOption = Annotated[
    Literal["laptop", "paper"] | None,
    typer.Option(
        help="Choose the scale of the study: laptop takes a few hours on two cores, paper is what "
        "the paper did. Default: the scale of an existing study folder, else paper."
    ),
]
Seeds = Annotated[
    int | None, typer.Option(min=1, help="Use the seeds 0 to N - 1. Default: the recipe's.")
]
Workers = Annotated[
    int, typer.Option(min=1, help="Run this many cells at a time, with one thread each.")
]
Engine = Annotated[
    Literal["local", "ray", "slurm"],
    typer.Option(help="Run cells on this machine (local), on Ray, or as Slurm jobs."),
]
Out = Annotated[Path, typer.Argument(metavar="FOLDER", help="A study folder.")]


@study_app.command(
    "list", epilog=examples("nearsight study list", "nearsight study list --recipes my-recipes")
)
def list_studies(recipes: Recipes = None) -> Result:
    """List the recipes with their question, cost and expected numbers."""
    from nearsight.study.design import recipes as found
    from nearsight.study.show import print_recipes

    listed = found(recipes)
    print_recipes(listed)
    return Result(content=[{"name": x.name, "question": x.question, **x.told} for x in listed])


@study_app.command(
    "plan",
    epilog=examples(
        "nearsight study plan protocol-ablation --seeds 5",
        "nearsight study plan convit-sizes --scale laptop --workers 4",
        "nearsight study plan convit-sizes --gpu-tflops 250",
    ),
)
def plan_study(
    name: Name,
    scale: ScaleOption = None,
    seeds: Seeds = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Leave out the cells that are finished in this study folder."
        ),
    ] = None,
    workers: Workers = 2,
    gpu_tflops: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Also give the time on a GPU that trains at this speed in TFLOP/s; expect about a "
            "third of the speed in its data sheet.",
        ),
    ] = 100.0,
    recipes: Recipes = None,
    data_root: DataRoot = None,
) -> Result:
    """Show what a study would run and how long it would take.

    Without --scale and --out, prints the time that both scales would take; no data set is needed.
    With one of them, lists the cells of the study and times a few steps of each condition. Nothing
    is written.
    """
    from nearsight.study.design import recipe
    from nearsight.study.run import expected_seconds, plan_cells, study_costs, training_speed
    from nearsight.study.show import costs_json, print_costs, print_plan

    chosen, study = None if seeds is None else range(seeds), recipe(name, recipes)
    costs = study_costs(study, seeds)
    whole = scale is None and out is None and bool(study.scales)
    if not whole:
        plan = plan_cells(study, chosen, out, data_root, scale=scale)
        print_plan(plan, expected_seconds(plan, workers, data_root), workers)
        costs = [cost for cost in costs if cost.scale == plan.scale]
    speed = training_speed() if whole else None
    print_costs(study.name, costs, speed, workers, gpu_tflops)
    return Result(content=costs_json(costs, speed, gpu_tflops))


@study_app.command(
    "run",
    epilog=examples(
        "nearsight study run quick --workers 2 --out studies-out/quick",
        "nearsight study run convit-grid --scale laptop --out studies-out/convit-grid",
        "nearsight study run my-study.py --engine slurm --slurm timeout_min=240 --out out",
    ),
)
def run_one(
    name: Name,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Write or continue the study in this folder.")
    ],
    scale: ScaleOption = None,
    seeds: Seeds = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Run this many cells at a time. Default: 2 on this machine; on Ray and Slurm, as "
            "many as there is room for.",
        ),
    ] = None,
    engine: Engine = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Connect to the Ray cluster at this address, or to the one that Ray finds (auto). "
            "Default: start Ray on this machine.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="Run every cell on cpu, cuda or mps.")
    ] = "cpu",
    gpus_per_cell: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Reserve this many GPUs per cell on Ray (fractions allowed) or Slurm. Default: 1 "
            "with --device cuda.",
        ),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Set a parameter of submitit, such as timeout_min=240. May be repeated.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run the cells that failed before.")
    ] = False,
    reuse: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="First copy finished cells from this folder of an earlier study."
        ),
    ] = None,
    accept_differences: Annotated[
        bool,
        typer.Option(
            "--accept-differences",
            help="With --reuse: accept cells made with other software versions without asking.",
        ),
    ] = False,
    only_identical: Annotated[
        bool,
        typer.Option(
            "--only-identical",
            help="With --reuse: run cells again that were made with other software versions.",
        ),
    ] = False,
    recipes: Recipes = None,
    data_root: DataRoot = None,
) -> Result:
    """Run every cell of a study that is not finished.

    Run the same command again to continue an interrupted study.
    """
    from nearsight.study.design import recipe
    from nearsight.study.engines import EngineOptions, slurm_parameters
    from nearsight.study.run import run_study
    from nearsight.study.show import print_status, status_json

    if accept_differences and only_identical:
        raise UserError(
            "--accept-differences and --only-identical exclude each other; give one, not both"
        )
    options = EngineOptions(engine, address, gpus_per_cell, slurm_parameters(slurm or ()))
    chosen = None if seeds is None else range(seeds)
    left = run_study(
        recipe(name, recipes), out, chosen, workers, data_root, device,
        retry_failed=retry_failed, reuse_from=reuse, engine=options,
        accept=_accept(accept_differences), only_identical=only_identical, scale=scale,
    )  # fmt: skip
    print_status(out)
    print(out)
    if left:
        raise UserError(
            f"{len(left)} cells of {out} are not finished; run the command again, with "
            "--retry-failed to include the cells that failed"
        )
    return Result((out,), status_json(out))


def _accept(given: bool) -> Callable[[Sequence[str]], bool] | None:
    """Return a function that decides whether to reuse cells of other software.

    With --accept-differences it always accepts; in a terminal it asks the user. Otherwise there is
    nobody to ask, and None is returned.
    """
    if given:
        return lambda lines: True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(lines: Sequence[str]) -> bool:
        print(
            "The cells to reuse were made with other software:", *lines, sep="\n  ", file=sys.stderr
        )
        return typer.confirm("Reuse them?", err=True)

    return ask


@study_app.command(
    "status",
    epilog=examples(
        "nearsight study status studies-out/quick",
        "nearsight study status studies-out/quick --json",
    ),
)
def show_status(out: Out) -> Result:
    """Show which cells are finished, running, waiting or failed.

    For a failed cell the reason is given.
    """
    from nearsight.study.show import print_status, status_json

    print_status(out)
    return Result(content=status_json(out))


@study_app.command(
    "report",
    epilog=examples(
        "nearsight study report studies-out/quick",
        "nearsight study report studies-out/quick --out quick.html --format pdf",
    ),
)
def write_page(
    folder: Out,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the page to this file. Default: report.html in the study folder.",
        ),
    ] = None,
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
    """Write the results of the finished cells as an HTML page.

    The page has the effects, figures and tables. The numbers also go to summary.json in the study
    folder.
    """
    from nearsight.runs.records import SUMMARY_FILE
    from nearsight.study.analyse import load_study, study_effects
    from nearsight.study.show import print_results
    from nearsight.study.show import write_page as write

    study = load_study(folder)
    effects = study_effects(study)
    path = write(study, effects, out or folder / "report.html", tuple(format_ or ()))
    print_results(study, effects)
    print(path)
    found = SUMMARY_FILE.read(folder).contents()
    told = {name: found[name] for name in ("primary", "num_simultaneous", "shares")}
    return Result((path,), told)


@study_app.command(
    "export",
    epilog=examples(
        "nearsight study export studies-out/quick --to results/quick",
        "nearsight study export studies-out/ablation --to ~/paper/ablation",
    ),
)
def export(
    folder: Out,
    to: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Write to this folder, which must be new, empty, or an earlier export of this "
            "study.",
        ),
    ],
) -> Result:
    """Copy a study, finished or not, for publication.

    The copy contains the JSON files and the page, but no weights and no paths of this machine. An
    earlier export is updated: newly finished cells are added, and cells that were made with other
    software are replaced. `study run --reuse` copies the cells of an export into a study.
    """
    from nearsight.core import console
    from nearsight.study.show import publish_study

    found = publish_study(folder, to)
    console().say(f"{found}.")
    print(found.path)
    told = {"added": found.added, "replaced": found.replaced, "kept": found.kept}
    return Result((found.path,), told)


@study_app.command(
    "causal",
    epilog=examples(
        "nearsight study causal runs/modern-0 --head 1.2 --window 3",
        "nearsight study causal studies-out/quick --num-images 500",
    ),
)
def causal(
    run: Annotated[Path, typer.Argument(help="A finished run folder, or a study folder.")],
    head: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER.HEAD",
            help="Test only this head, counted from 1. May be repeated. Default: each head, each "
            "layer, and all heads together.",
        ),
    ] = None,
    window: Annotated[
        int, typer.Option(min=1, help="Side of the local window in patches, an odd number.")
    ] = 3,
    num_images: Annotated[
        int | None, typer.Option(min=2, help="Test on this many images. Default: up to 1,000.")
    ] = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    data_root: DataRoot = None,
) -> Result:
    """Test whether a model uses local attention.

    Makes heads attend elsewhere and measures how much accuracy is lost. The results go to
    causal.json and causal.svg in the run folder. For a study folder, every finished cell is tested,
    and the losses are averaged over the seeds of each condition.
    """
    heads = [_layer_and_head(text) for text in head] if head else None
    from nearsight.core import find_device, show_progress
    from nearsight.evaluate import CAUSAL_STAGE
    from nearsight.report.figures.study import write_causal_figure
    from nearsight.study.analyse import load_study
    from nearsight.study.folder import STUDY
    from nearsight.study.show import print_causal, print_causal_study

    study = load_study(run) if (run / STUDY).is_file() else None
    folders = [run] if study is None else [x.files.path for x in study.finished]
    if study is not None and heads:
        raise UserError(
            "--head needs a run folder, because head 1 of one seed does not correspond to head 1 "
            "of another; give a run folder, or leave out --head"
        )
    paths = []
    for folder in folders:
        with show_progress(f"changing heads of {folder}, passes") as count:
            settings = {
                "heads": heads, "window": window, "num_images": num_images,
                "batch_size": batch_size, "device": str(find_device(device)),
                "data_root": data_root, "progress": count,
            }  # fmt: skip
            paths.append(CAUSAL_STAGE.run(folder, settings))
        write_causal_figure(folder)
    if study is None:
        print_causal(run)
    else:
        print_causal_study(study)
    print("\n".join(map(str, paths)))
    return Result(tuple(paths))


def _layer_and_head(text: str) -> tuple[int, int]:
    """Return a layer and a head counted from 0.

    >>> _layer_and_head("2.1")
    (1, 0)
    """
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"--head is {text!r}, but it must be LAYER.HEAD, both counted from 1")
    return int(parts[0]) - 1, int(parts[1]) - 1


@study_app.command(
    "claims",
    epilog=examples(
        "nearsight study claims studies-out/ablation",
        "nearsight study claims studies-out/ablation --all --details",
    ),
)
def show_claims(
    folder: Out,
    all_: Annotated[
        bool, typer.Option("--all", help="Also list claims that this study does not test.")
    ] = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Also print the source, numbers and reasons of each claim."),
    ] = False,
) -> Result:
    """Compare a study with the claims of the papers.

    Prints which claims the study supports, contradicts or leaves open, and writes all verdicts to
    claims.json in the study folder.
    """
    from nearsight.study.analyse import load_study
    from nearsight.study.claims import write_claims
    from nearsight.study.show import print_verdicts

    path, found = write_claims(load_study(folder))
    print_verdicts(found, all_, details)
    print(path)
    return Result((path,), [x.contents() for x in found if all_ or x.findings])
