"""Define the commands that show, test, judge and export the results of studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearsight.cli.shared import BatchSize, DataRoot, Device, Result, examples
from nearsight.core import UserError

Out = Annotated[Path, typer.Argument(metavar="FOLDER", help="A study folder.")]
REPORT_EXAMPLE = examples(
    "nearsight study report studies-out/quick",
    "nearsight study report studies-out/quick --out quick.html --format pdf",
)
EXPORT_EXAMPLE = examples(
    "nearsight study export studies-out/quick --to results/quick",
    "nearsight study export studies-out/ablation --to ~/paper/ablation",
)
CAUSAL_EXAMPLE = examples(
    "nearsight study causal runs/modern-0 --head 1.2 --window 3",
    "nearsight study causal studies-out/quick --num-images 500",
)
CLAIMS_EXAMPLE = examples(
    "nearsight study claims studies-out/ablation",
    "nearsight study claims studies-out/ablation --all --details",
)
PAPERS_EXAMPLE = examples(
    "nearsight papers",
    "nearsight papers --paper convit --studies studies-out",
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


def list_papers(
    paper: Annotated[
        Literal["protocol", "locat", "convit"] | None,
        typer.Option(help="List only the tables and figures of this paper."),
    ] = None,
    studies: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Look for finished runs in this study folder, or in the studies in this folder. "
            "May be repeated. Default: studies-out, if it exists.",
        ),
    ] = None,
) -> Result:
    """List every table and figure of the three papers.

    Shows for each the recipe that makes it, its cost at both scales, and how much of it has been
    run so far.
    """
    from nearsight.study.papers import listed_items
    from nearsight.study.show import papers_json, print_papers

    found = [x for x in listed_items(studies) if paper in (None, x[0].paper)]
    print_papers(found)
    return Result(content=papers_json(found))
