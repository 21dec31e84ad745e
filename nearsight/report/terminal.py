"""The table of measured runs for the terminal: at most 80 columns, a tiny bar per layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nearsight.run import MEASURE, read_json, read_record

BAR_WIDTH = 10
BAR_MAD = 0.6  # MAD of a full bar, as in the heatmaps
EIGHTHS = " ▏▎▍▌▋▊▉"
HEADINGS = ("min MAD", "mean MAD", "entropy", "self-mass")


def mad_bar(mad: float, ascii_only: bool = False) -> str:
    """A bar as long as MAD / 0.6.

    >>> mad_bar(0.3, ascii_only=True)
    '#####'
    """
    length = min(max(mad / BAR_MAD, 0.0), 1.0) * BAR_WIDTH
    if ascii_only:
        return "#" * round(length)
    whole, eighths = divmod(round(length * 8), 8)
    return ("█" * whole + EIGHTHS[eighths]).rstrip()


def terminal_table(
    measures: Sequence[dict[str, Any]],
    records: Sequence[dict[str, Any]],
    ascii_only: bool = False,
) -> Table:
    """Accuracy, MAD, entropy and self-mass of every run and layer, with the two null lines.

    ``measures`` are the contents of measure.json, ``records`` those of run.json.
    """
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("", max_width=24)
    for heading in ("accuracy", *HEADINGS):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("MAD", no_wrap=True, width=BAR_WIDTH)
    for measure, record in zip(measures, records, strict=True):
        summary = measure["summary"]
        accuracy = (record.get("result") or {}).get("test_accuracy")
        table.add_row(
            f"[bold]{record['protocol']['name']}[/], seed {record['seed']}",
            "–" if accuracy is None else f"{accuracy:.1%}",
            f"{summary['min_mad']['value']:.3f}",
            f"{summary['mean_mad']['value']:.3f}",
            f"{summary['mean_entropy']['value']:.3f}",
            f"{summary['mean_self_mass']['value']:.3f}",
            mad_bar(summary["mean_mad"]["value"], ascii_only),
        )
        for layer, heads in enumerate(measure["layers"]):
            mad = summary["layer_mean_mad"][layer]["value"]
            table.add_row(
                f"  layer {layer + 1}",
                "",
                f"{min(heads['mad']['mean']):.3f}",
                f"{mad:.3f}",
                f"{summary['layer_mean_entropy'][layer]['value']:.3f}",
                f"{summary['layer_mean_self_mass'][layer]['value']:.3f}",
                mad_bar(mad, ascii_only),
            )
    for grid, null in {tuple(m["grid"]): m["null"] for m in measures}.items():
        of_grid = "" if len({tuple(m["grid"]) for m in measures}) == 1 else f", {grid[0]}x{grid[1]}"
        for key, name in (("uniform", "uniform attention"), ("box", "3x3 box")):
            mad = null[f"{key}_mad"]
            table.add_row(
                f"{name}{of_grid}",
                "",
                f"{mad:.3f}",
                f"{mad:.3f}",
                f"{null[f'{key}_entropy']:.3f}",
                f"{null[f'{key}_self_mass']:.3f}",
                mad_bar(mad, ascii_only),
                style="dim",
            )
    return table


def print_measurements(paths: Sequence[Path]) -> None:
    """Print the table of measured run folders."""
    records = [read_record(Path(path)) for path in paths]
    for path in paths:
        if not (Path(path) / MEASURE).is_file():
            raise ValueError(f"{path} has no {MEASURE}: run nearsight measure {path} first")
    measures = [read_json(Path(path) / MEASURE) for path in paths]
    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, 80))
    console.print(terminal_table(measures, records, console.options.ascii_only))
    images = sorted({measure["num_images"] for measure in measures})
    print(f"MAD in grid diagonals over {'–'.join(f'{n:,}' for n in images)} test images.")
