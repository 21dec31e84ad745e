"""Attention maps of several models side by side: a row per model, a column per query.

Colour is attention in times uniform attention (1: what looking at all patches alike would give), so
that models of different grids compare, on one logarithmic scale that is the same for every map of
every figure: 1/4 and less is darkest, 64 and more brightest. A linear scale would show the few
patches that attract most attention, often corners, and nothing else. A patch of a map is one
square, nothing is smoothed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsight.disk import write_bytes
from nearsight.report.figures.drawing import MUTED, RULE, saved_figure, settings
from nearsight.report.grouping import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nearsight.measure.image_maps import AttentionMap
    from nearsight.measure.target_maps import TargetMaps

FORMATS = ("png", "svg", "pdf")
MARKS = (VERMILION, SKY, ORANGE, PURPLE, GREEN, BLUE)  # of the patches, in turn
SCALE = {0.25: "¼", 1: "1", 4: "4", 16: "16", 64: "64"}  # times uniform; the ends are the limits
WIDTH, TALLEST = 1.7, 2.6  # inches, of a map
GAP, MARGIN = 0.12, 0.1
ROW_HEAD, COLUMN_HEAD, CAPTION, BAR = 0.36, 0.22, 0.2, 0.42  # inches above, above, below, below


@dataclass(frozen=True)
class Column:
    """One query in every model: the map, or None where a model has none."""

    title: str
    maps: tuple[AttentionMap | None, ...]
    patch: int | None = None  # which of the chosen ones; None: the class token


def write_maps(rows: Sequence[TargetMaps], out: Path, image_name: str) -> Path:
    """Write the figure to ``out``, whose ending says the format."""
    check_format(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(out, maps_figure(rows, image_name, _format(out)))
    except OSError as error:
        raise ValueError(f"cannot write the maps to {out}: {error.strerror}") from error
    return out


def check_format(out: Path) -> None:
    if _format(out) not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(f"expected a file that ends in one of {known}, got {out}")


def _format(out: Path) -> str:
    return out.suffix.lower().removeprefix(".")


def columns_of(rows: Sequence[TargetMaps]) -> list[Column]:
    """[CLS], if any model has one, then the chosen patches."""
    of_class = tuple(row.maps.of_class for row in rows)
    columns = [Column("[CLS]", of_class)] if any(x is not None for x in of_class) else []
    for index in range(len(rows[0].maps.patches)):
        maps = tuple(row.maps.of_patches[index] for row in rows)
        columns.append(Column(f"patch {index + 1}", maps, index))
    return columns


def maps_figure(rows: Sequence[TargetMaps], image_name: str, file_format: str = "png") -> bytes:
    """The figure as a png, svg or pdf file; ``rows`` are what ``target_maps`` found."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = columns_of(rows)
    width = 2 * MARGIN + (1 + len(columns)) * (WIDTH + GAP) - GAP
    heights = [_height(row) for row in rows]
    subtitle = textwrap.wrap(_subtitle(rows, columns, image_name), int(width * 16))
    head = 0.34 + 0.14 * len(subtitle) + COLUMN_HEAD
    total = head + sum(heights) + len(rows) * (ROW_HEAD + CAPTION) + BAR
    with rc_context(settings("maps")):
        figure = Figure(figsize=(width, total))

        def words(x: float, y: float, text: str, **style: Any) -> None:
            figure.text(x / width, 1 - y / total, text, va="top", **style)

        def axes_at(column: int, y: float, height: float) -> Axes:
            left = MARGIN + column * (WIDTH + GAP)
            return figure.add_axes(
                (left / width, 1 - (y + height) / total, WIDTH / width, height / total)
            )

        words(MARGIN, 0.06, "Where attention looks", fontsize=10, fontweight="bold")
        words(MARGIN, 0.27, "\n".join(subtitle), fontsize=7.5, color=MUTED)
        for number, column in enumerate(columns, 1):
            left, top = MARGIN + number * (WIDTH + GAP), head - COLUMN_HEAD
            if column.patch is not None:
                words(left, top, "■", color=_mark(column.patch))
                left += 0.15
            words(left, top, column.title, fontweight="bold")
        y = head
        for index, (row, height) in enumerate(zip(rows, heights)):
            words(MARGIN, y, row.name, fontweight="bold")
            words(MARGIN, y + 0.15, _row_words(row), fontsize=7, color=MUTED)
            y += ROW_HEAD
            draw_image(axes_at(0, y, height), row)
            for number, column in enumerate(columns, 1):
                draw_map(axes_at(number, y, height), row, column, column.maps[index])
            y += height + CAPTION
        _draw_bar(figure, axes_at(1, y + 0.06, 0.07))
        return saved_figure(figure, file_format)


def _height(row: TargetMaps) -> float:
    height, width = row.pixels.shape[:2]
    return min(WIDTH * height / width, TALLEST)


def _mark(patch: int) -> str:
    return MARKS[patch % len(MARKS)]


def _row_words(row: TargetMaps) -> str:
    maps = row.maps
    one = f"head {(maps.head or 0) + 1} of {maps.num_heads}"
    heads = one if maps.head is not None else f"mean of {maps.num_heads} heads"
    return f"layer {maps.layer + 1} of {maps.num_layers}, {heads}, {maps.grid} patches"


def _subtitle(rows: Sequence[TargetMaps], columns: Sequence[Column], image_name: str) -> str:
    parts = [
        f"{image_name} · attention to patches, rows made to sum to one · colour: times uniform "
        "attention, the same logarithmic scale for every map"
    ]
    if all(column.patch is not None for column in columns):
        parts.append("no [CLS] column: no class token takes part in these layers")
    if any(row.maps.num_windows > 1 for row in rows):
        parts.append("grey: outside the window, where a patch cannot look")
    return " · ".join(parts)


def draw_image(axes: Axes, row: TargetMaps) -> None:
    """What the model saw, with the chosen patches marked."""
    _on_image(axes, row, row.pixels)
    for index in range(len(row.maps.patches)):
        _outline(axes, row, index)


def draw_map(axes: Axes, row: TargetMaps, column: Column, found: AttentionMap | None) -> None:
    """One map with the patch that looks, and the share of its attention that is on patches."""
    if found is None:
        axes.set_axis_off()
        reason = "no class token\ntakes part in\nthis layer"
        axes.text(0.5, 0.5, reason, ha="center", va="center", color=MUTED, fontsize=7.5)
        return
    from matplotlib import colormaps

    colours = colormaps["viridis"].with_extremes(bad=RULE)
    _on_image(axes, row, found.times_uniform, cmap=colours, norm=_scale())
    caption = f"{100 * found.on_patches:.0f} % on patches"
    if column.patch is not None:
        at = row.maps.patches[column.patch]
        caption = f"row {at[0] + 1}, column {at[1] + 1} · {caption}"
        _outline(axes, row, column.patch)
    axes.set_xlabel(caption, fontsize=6.5, color=MUTED, loc="left", labelpad=2)


def _on_image(axes: Axes, row: TargetMaps, values: np.ndarray, **colours: Any) -> None:
    """Values over the whole image, in its pixels."""
    height, width = row.pixels.shape[:2]
    axes.imshow(values, extent=(0, width, height, 0), interpolation="nearest", **colours)
    axes.set_anchor("NW")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _outline(axes: Axes, row: TargetMaps, index: int) -> None:
    """The frame of a chosen patch, white and dark around its colour so that it shows anywhere."""
    from matplotlib.patches import Rectangle

    (height, width), grid = row.pixels.shape[:2], row.maps.grid
    down, right = height / grid.rows, width / grid.cols
    y, x = row.maps.patches[index]
    for colour, line in (("#000000", 2.6), ("#ffffff", 2.0), (_mark(index), 1.2)):
        style: dict[str, Any] = {"edgecolor": colour, "linewidth": line, "joinstyle": "miter"}
        corner = (x * right, y * down)
        axes.add_patch(Rectangle(corner, right, down, fill=False, clip_on=False, **style))


def _scale() -> Any:
    from matplotlib.colors import LogNorm

    return LogNorm(min(SCALE), max(SCALE), clip=True)


def _draw_bar(figure: Figure, axes: Axes) -> None:
    """What the colours mean."""
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(_scale(), "viridis"), cax=axes, orientation="horizontal",
        ticks=list(SCALE), format=lambda value, _: SCALE[value],
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=2, labelsize=7, pad=1.5)
    bar.set_label("times uniform attention", fontsize=7, labelpad=1)
