"""Draw how much accuracy a model loses if its heads attend elsewhere: does it use locality?

The numbers come from causal.json (``nearsight study causal``). There is a panel for each change and
a row for each head. Every run has a figure of its own, because head 1 of one seed does not
correspond to head 1 of another.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsight.core import write_bytes
from nearsight.report.figures.drawing import MUTED, TEXT, Drawing, Panel, whole_figure
from nearsight.report.read import BLUE, Family
from nearsight.runs import CAUSAL, read_record
from nearsight.runs.records import CAUSAL_FILE, CausalRecord, LossRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE = "causal.svg"
LEVEL = 0.05  # a loss is beyond chance if its p after Holm is below this
CHANGES = {"inside": "only inside", "outside": "only outside", "mean": "mean map"}
TITLES = {
    "inside": "Only inside the window",
    "outside": "Only outside the window",
    "mean": "Mean map of other images",
}


def draw_change(
    axes: Axes, entries: list[LossRecord], limits: tuple[float, float], style: dict[str, Any]
) -> None:
    """Draw a row for each entry.

    A mark is filled if the loss is beyond chance, and dark if several heads change together.
    """
    for row, entry in enumerate(entries):
        low, value, high = (100 * x for x in (entry.low, entry.value, entry.high))
        ink = style["color"] if "." in entry.heads else TEXT
        face = ink if entry.p_holm < LEVEL else "none"
        axes.plot([low, high], [row, row], color=ink, linewidth=1.0)
        axes.plot(value, row, marker=style["marker"], color=ink, markerfacecolor=face)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.annotate(
        "no loss", (0, 1), xycoords=("data", "axes fraction"), xytext=(3, -1),
        textcoords="offset points", color=MUTED, fontsize=7, va="top",
    )  # fmt: skip
    axes.set_yticks(range(len(entries)), [entry.heads for entry in entries])
    axes.set_ylim(len(entries) - 0.4, -1.4)
    axes.set_xlim(*limits)
    axes.set_xlabel("points of accuracy lost")
    axes.set_ylabel("layer.head")


def causal_figure(
    contents: CausalRecord, name: str, key: str, colour: str = BLUE, marker: str = "o"
) -> Drawing:
    """Return the figure of one causal.json; ``name`` is that of the run, for the subtitle."""
    lost = contents.lost
    by_change: dict[str, list[LossRecord]] = {}
    for entry in lost:
        by_change.setdefault(entry.change, []).append(entry)
    ends = [100 * end for entry in lost for end in (entry.low, entry.high)]
    limits = min(*ends, 0) - 0.5, max(*ends, 0) + 0.5
    side, images = contents.window, contents.num_images
    sure = [entry for entry in lost if entry.p_holm < LEVEL]
    most = max(lost, key=lambda entry: entry.value)
    alt = (
        f"Accuracy lost with 95 % intervals over images. Most: {_told(most)}. Beyond chance after "
        f"Holm: {len(sure)} of {len(lost)} changes"
    )
    alt += f" ({'; '.join(map(_told, sure))})." if 0 < len(sure) <= 6 else "."
    style = {"color": colour, "marker": marker}
    columns = "low", "high", "num_images", "p", "p_holm"
    most_rows = max(map(len, by_change.values()))
    return Drawing(
        key=key,
        title="Is locality used? Accuracy lost if heads attend elsewhere",
        subtitle=f"{name} · accuracy {100 * contents.accuracy:.1f} % before · the same "
        f"{images:,} test images after · window {side}x{side} patches",
        reading="A mark to the right of the line means that the model loses accuracy, and so "
        "relies on what was taken away. In each row, the patches of one head (layer.head, in "
        "colour) or of several heads together (dark) may attend only inside the window around "
        "them, only outside it, or only where they attend on average. Horizontal lines are 95 % "
        "intervals over the images of this run, not corrected for several comparisons. A filled "
        f"mark is a loss beyond chance: its exact McNemar p is below {LEVEL} after Holm's "
        f"correction for all {len(lost)} changes. "
        f"{' '.join(contents.remarks)}".strip(),
        alt=alt,
        panels=tuple(
            Panel(TITLES[kind], partial(draw_change, entries=found, limits=limits, style=style))
            for kind, found in by_change.items()
        ),
        columns=("run", "heads", "change", "lost", *columns),
        rows=tuple(
            (name, *(getattr(entry, part) for part in ("heads", "change", "value", *columns)))
            for entry in lost
        ),
        inks=(colour,),
        panel_size=(3.4, 0.9 + 0.17 * most_rows),
        per_row=3,
    )


def _told(entry: LossRecord) -> str:
    low, value, high = (f"{100 * x:.1f}" for x in (entry.low, entry.value, entry.high))
    return f"{entry.heads}, {CHANGES[entry.change]}: {value} points ({low} to {high})"


def causal_drawings(family: Family, key: str) -> list[Drawing]:
    """Return a figure for every run that has a causal.json."""
    found: list[Drawing] = []
    for condition in family.conditions:
        for run in condition.runs:
            if not (run.path / CAUSAL).is_file():
                continue
            seed = "" if run.seed is None else f", seed {run.seed}"
            found.append(
                drawn_file(
                    run.path, f"{condition.label}{seed} · {family.where}",
                    f"{key}-{len(found) + 1}", condition.colour, condition.marker,
                )
            )  # fmt: skip
    return found


def write_causal_figure(folder: Path) -> Path:
    """Draw the causal.json of a run folder as causal.svg beside it, and return its path."""
    record = read_record(folder)
    drawing = drawn_file(folder, f"{record.name} · {record.data.name}", "causal")
    write_bytes(folder / FIGURE, whole_figure(drawing, "svg"))
    return folder / FIGURE


def drawn_file(folder: Path, name: str, key: str, *style: str) -> Drawing:
    """Return the figure of a run folder's causal.json."""
    return causal_figure(CAUSAL_FILE.read(folder), name, key, *style)
