"""Define the subcommands of ``nearsight study``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import App, DataRoot, Result, examples
from nearsight.cli.study_results import (
    CAUSAL_EXAMPLE,
    CLAIMS_EXAMPLE,
    EXPORT_EXAMPLE,
    REPORT_EXAMPLE,
    Out,
    causal,
    export,
    show_claims,
    write_page,
)
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


study_app.command("report", epilog=REPORT_EXAMPLE)(write_page)
study_app.command("export", epilog=EXPORT_EXAMPLE)(export)
study_app.command("causal", epilog=CAUSAL_EXAMPLE)(causal)
study_app.command("claims", epilog=CLAIMS_EXAMPLE)(show_claims)
