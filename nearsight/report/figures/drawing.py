"""Describe a figure as small panels, and write it as SVG, PNG or PDF.

The page shows every panel as a separate SVG, 8 cm wide, so that panels stand side by side on a wide
screen and below each other on a phone. A download is one file with all panels, title and subtitle.
Text stays text, so that it can be searched and selected. In the page, ink colours become CSS
variables, which the dark theme lightens; colours that stand for values (heatmaps) do not change.
matplotlib is imported only when the first figure is drawn, because its import is slow.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nearsight.report.read import DARK, MUTED, RULE, TEXT, ConditionRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_SIZE = (3.4, 2.6)  # inches; 3.4 are 8.6 cm
LONGEST_ROW_NAME = 24  # characters in a line of a row's name


@dataclass(frozen=True)
class Panel:
    """One pair of axes: its title and the function that draws into it."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Drawing:
    """A figure: its panels, its text, and the numbers behind it.

    Attributes:
        key: The name of its files and of its ids in the page.
        title: What is plotted.
        subtitle: The data, the number of images and seeds, and the convention.
        reading: The caption, which says what to see.
        alt: The finding in words, for readers who cannot see the figure.
        panels: Its panels.
        columns: The columns of the CSV with its numbers.
        rows: The rows of that CSV.
        legend: The conditions that need a legend.
        inks: The colours it uses besides those of conditions.
        panel_size: Width and height of a panel in inches.
        per_row: The number of panels beside each other in a file.
        keeps_rows: Whether a page also puts ``per_row`` panels in a row, however narrow it is. By
            default as many panels stand in a row as fit.
        colours: The colours of its conditions.
    """

    key: str
    title: str
    subtitle: str
    reading: str
    alt: str
    panels: tuple[Panel, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    legend: tuple[ConditionRuns, ...] = ()
    inks: tuple[str, ...] = ()
    panel_size: tuple[float, float] = PANEL_SIZE
    per_row: int = 2
    keeps_rows: bool = False
    colours: tuple[str, ...] = field(default=(), kw_only=True)


def settings(key: str) -> Any:
    """Return the settings of matplotlib; the salt ``key`` makes SVG ids reproducible."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": key,
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
        "pdf.fonttype": 42,
        "font.family": ["DejaVu Sans"],
        "font.size": 8,
        "axes.titlesize": 8.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": TEXT,
        "axes.titlecolor": TEXT,
        "text.color": TEXT,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": TEXT,
        "ytick.labelcolor": TEXT,
        "lines.linewidth": 1.4,
        "lines.markersize": 4.5,
        "axes.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": 7.5,
    }


def layer_colours(num_layers: int) -> list[str]:
    """Return a colour of viridis for each layer, the first one darkest.

    The pale end of viridis is left out, because it cannot be seen on white.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    steps = [0.9 * layer / max(1, num_layers - 1) for layer in range(num_layers)]
    return [to_hex(colormaps["viridis"](step)) for step in steps]


def dark_theme_colour(colour: str) -> str:
    """Return the colour that replaces this one in the dark theme."""
    if colour in DARK:
        return DARK[colour]
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + 0.45 * (255 - part)):02x}" for part in parts)


def panel_svgs(drawing: Drawing) -> list[str]:
    """Return every panel as SVG for a page, with unique ids, CSS variables and no background."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    inks = {TEXT, MUTED, RULE, *drawing.inks, *drawing.colours}
    found = []
    for number, panel in enumerate(drawing.panels, 1):
        key = f"{drawing.key}-{number}"
        with rc_context(settings(key)):
            figure = Figure(figsize=drawing.panel_size, layout="constrained")
            axes = figure.add_subplot()
            panel.draw(axes)
            axes.set_title(panel.title)
            svg = saved_figure(figure, "svg").decode()
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{key}-", svg)
        for ink in inks:
            svg = svg.replace(ink, f"var(--ink-{ink[1:]}, {ink})")
        found.append(svg)
    return found


def whole_figure(drawing: Drawing, file_format: str) -> bytes:
    """Return the bytes of one svg, png or pdf file with all panels, title and legend."""
    from matplotlib import rc_context

    with rc_context(settings(drawing.key)):
        return saved_figure(_assembled(drawing), file_format)


def plain_figure(drawing: Drawing) -> Figure:
    """Return all panels with title, subtitle and legend as a figure of matplotlib.

    A notebook shows it if it is the last value of a cell; its ``savefig`` writes it to a file.
    """
    from matplotlib import pyplot, rc_context

    assert pyplot  # its import tells notebooks how to show a figure
    with rc_context(settings(drawing.key)):
        figure = _assembled(drawing)
        figure.canvas.draw()  # computes the layout while these settings hold
        return figure


def _assembled(drawing: Drawing) -> Figure:
    from matplotlib.figure import Figure

    per_row = min(drawing.per_row, len(drawing.panels))
    num_rows = math.ceil(len(drawing.panels) / per_row)
    width, height = drawing.panel_size[0] * per_row, drawing.panel_size[1] * num_rows
    title = textwrap.wrap(drawing.title, int(width * 12))
    subtitle = textwrap.wrap(drawing.subtitle, int(width * 16))
    space = 0.2 * len(title) + 0.14 * len(subtitle) + 0.12 + 0.2 * bool(drawing.legend)  # inches
    figure = Figure(figsize=(width, height + space), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, height / (height + space)))  # type: ignore
    for number, panel in enumerate(drawing.panels, 1):
        axes = figure.add_subplot(num_rows, per_row, number)
        panel.draw(axes)
        axes.set_title(panel.title)
    inch = 1 / (height + space)
    words: dict[str, Any] = {"x": 0.01, "va": "top", "in_layout": False}
    figure.text(y=1 - 0.05 * inch, s="\n".join(title), fontsize=10, fontweight="bold", **words)
    figure.text(
        y=1 - (0.08 + 0.2 * len(title)) * inch, s="\n".join(subtitle), fontsize=7.5,
        color=MUTED, **words,
    )  # fmt: skip
    if drawing.legend:
        figure.legend(
            handles=[line_handle(condition) for condition in drawing.legend],
            loc="outside lower left",
            ncols=legend_columns([x.label for x in drawing.legend], width),
        )
    return figure


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns of the longest label fit into a figure of this many inches.

    >>> legend_columns(["baseline"] * 8, 6.8), legend_columns(["a name " * 9, "b"], 6.8)
    (7, 1)
    """
    return max(1, min(len(labels), int(width * 14 / (max(map(len, labels)) + 5))))


def saved_figure(figure: Figure, file_format: str) -> bytes:
    """Return a figure as the bytes of a file, without dates, so that equal figures are equal."""
    nothing = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }
    buffer = io.BytesIO()
    on_paper = file_format != "svg"
    figure.savefig(
        buffer, format=file_format, dpi=200, transparent=not on_paper,
        metadata=nothing[file_format],
    )  # fmt: skip
    return buffer.getvalue()


def line_handle(condition: ConditionRuns) -> Any:
    """Return the entry of a condition in a legend of matplotlib."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=condition.colour, marker=condition.marker, linestyle=condition.line,
        label=condition.label,
    )  # fmt: skip


def row_height(labels: Sequence[str]) -> float:
    """Return the height of a row in inches, with room for the name that takes most lines."""
    lines = max(len(textwrap.wrap(label, LONGEST_ROW_NAME)) for label in labels)
    return max(0.3, 0.14 * lines + 0.06)


def name_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Give the axes a row for every name, the first one on top; long names are wrapped."""
    names = [textwrap.fill(label, LONGEST_ROW_NAME) for label in labels]
    axes.set_yticks(range(len(labels)), names)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def labels_fit(conditions: Sequence[ConditionRuns]) -> bool:
    """Tell whether lines can be named at their ends: at most three, with short names."""
    return len(conditions) <= 3 and all(len(c.label) <= 18 for c in conditions)


def end_labels(
    axes: Axes,
    ends: Sequence[tuple[float, ConditionRuns]],
    nulls: Sequence[tuple[float, str]] = (),
    gap: float = 0.085,
) -> None:
    """Write the names of lines to the right of the axes, and move them apart if they overlap.

    A name that was moved no longer stands at its line; therefore the marker of the condition stands
    beside it.

    Args:
        axes: The axes.
        ends: The height at which the line of each condition ends.
        nulls: Heights and names of other lines, which are written in grey.
        gap: The smallest distance between names, as a share of the height of the axes.
    """
    bottom, top = axes.get_ylim()
    heights = [y for y, _ in (*ends, *nulls)]
    places = spread([(y - bottom) / (top - bottom) for y in heights], gap)
    words: dict[str, Any] = {"transform": axes.transAxes, "va": "center", "fontsize": 7.5}
    for place, (_, condition) in zip(places, ends):
        axes.plot(
            [1.045], [place], transform=axes.transAxes, clip_on=False, markersize=4,
            marker=condition.marker, color=condition.colour,
        )  # fmt: skip
        axes.text(1.085, place, condition.label, **words)
    for place, (_, text) in zip(places[len(ends) :], nulls):
        axes.text(1.02, place, text, color=MUTED, **words)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as needed to be ``gap`` apart, around their own mean.

    >>> spread([0.5, 0.5, 0.1], 0.2)
    [0.4, 0.6, 0.1]
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    blocks: list[list[float]] = []  # [centre, members]
    for index in order:
        blocks.append([heights[index], 1])
        while len(blocks) > 1:
            (below, m), (above, n) = blocks[-2], blocks[-1]
            if above - below >= gap * (m + n) / 2 - 1e-12:
                break
            blocks[-2:] = [[(below * m + above * n) / (m + n), m + n]]
    places = [0.0] * len(heights)
    members = iter(order)
    for centre, count in blocks:
        for step in range(int(count)):
            places[next(members)] = round(centre + gap * (step - (count - 1) / 2), 6)
    return places
