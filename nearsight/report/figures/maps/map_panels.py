"""Draw attention maps of several models side by side, of chosen queries or of every head.

Colour is attention relative to uniform attention (1: as much as if all patches got the same), so
that models with different grids can be compared. The logarithmic scale is the same for every map of
every figure: 1/4 and less is darkest, 64 and more is brightest. A linear scale would show nothing
but the few patches that attract most attention, which are often corners. A patch is one square of
the map, without smoothing. If a part of the model gives its heads a share to show, such as the gate
of GPSA, a strip above the map shows it from white (0) to red (1), like figure 7 of d'Ascoli et al.,
2021.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsight.core import UserError, write_bytes
from nearsight.report.figures.drawing import MUTED, RULE, saved_figure, settings
from nearsight.report.figures.maps.map_rows import MapCell, MapColumn, MapRow, arrange_maps
from nearsight.report.read import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nearsight.measure.maps import TargetMaps

FORMATS = ("png", "svg", "pdf")
MARKS = (VERMILION, SKY, ORANGE, PURPLE, GREEN, BLUE)  # colours of the chosen patches, in turn
SCALE = {0.25: "¼", 1: "1", 4: "4", 16: "16", 64: "64"}  # times uniform; the ends are the limits
SHARES = ("#ffffff", "#d7191c")  # the colours of shares 0 and 1
WIDE, NARROW, MANY = 1.7, 1.15, 6  # width of a map in inches; narrow with more than 6 columns
TALLEST = 1.5  # the largest height of a map, in widths of a map
GAP, MARGIN = 0.12, 0.1
ROW_HEAD, COLUMN_HEAD, CAPTION, BAR = 0.36, 0.22, 0.2, 0.42  # inches above, above, below, below
STRIP = 0.07


def write_maps(targets: Sequence[TargetMaps], out: Path, name: str, every_head: bool) -> Path:
    """Write the maps of one or more models to a file.

    Args:
        targets: The maps, as ``target_maps`` returns them.
        out: The file; its ending (.png, .svg or .pdf) is the format.
        name: The name of the image, for the subtitle.
        every_head: Whether columns are heads; otherwise they are queries.

    Returns:
        The path of the file.

    Raises:
        UserError: If the ending is unknown or the file cannot be written.
    """
    check_format(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(out, maps_figure(targets, name, every_head, _format(out)))
    except OSError as error:
        raise UserError(f"cannot write the maps to {out}: {error.strerror}") from error
    return out


def check_format(out: Path) -> None:
    """Check that the ending of a file is that of a known format.

    Raises:
        UserError: If it is not.
    """
    if _format(out) not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"--out is {out}, but a figure needs a name that ends in one of {known}")


def _format(out: Path) -> str:
    return out.suffix.lower().removeprefix(".")


def maps_figure(
    targets: Sequence[TargetMaps], name: str, every_head: bool, file_format: str = "png"
) -> bytes:
    """Return the bytes of the maps as a png, svg or pdf file; see `write_maps`."""
    from matplotlib import rc_context

    with rc_context(settings("maps")):
        return saved_figure(draw_maps(targets, name, every_head), file_format)


def draw_maps(targets: Sequence[TargetMaps], name: str, every_head: bool = False) -> Figure:
    """Return the maps of one or more models as a figure of matplotlib; see `write_maps`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns, rows = arrange_maps(targets, every_head)
    side = WIDE if len(columns) <= MANY else NARROW
    width = 2 * MARGIN + (1 + len(columns)) * (side + GAP) - GAP
    heights = [_height(row.target, side) for row in rows]
    tops = [ROW_HEAD + (STRIP + 0.04) * (row.share is not None) for row in rows]
    subtitle = textwrap.wrap(_subtitle(targets, columns, name, every_head), int(width * 16))
    head = 0.34 + 0.14 * len(subtitle) + COLUMN_HEAD
    total = head + sum(heights) + sum(tops) + len(rows) * CAPTION + BAR
    with rc_context(settings("maps")):
        figure = Figure(figsize=(width, total))

        def words(x: float, y: float, text: str, **style: Any) -> None:
            figure.text(x / width, 1 - y / total, text, va="top", **style)

        def axes_at(column: int, y: float, height: float, share: float = 1.0) -> Axes:
            left = MARGIN + column * (side + GAP)
            return figure.add_axes(
                (left / width, 1 - (y + height) / total, share * side / width, height / total)
            )

        words(MARGIN, 0.06, "Where patches attend", fontsize=10, fontweight="bold")
        words(MARGIN, 0.27, "\n".join(subtitle), fontsize=7.5, color=MUTED)
        for number, column in enumerate(columns, 1):
            left, top = MARGIN + number * (side + GAP), head - COLUMN_HEAD
            if column.patch is not None:
                words(left, top, "■", color=_mark(column.patch))
                left += 0.15
            words(left, top, column.title, fontweight="bold")
        y = head
        for row, top, height in zip(rows, tops, heights):
            words(MARGIN, y, row.target.name, fontweight="bold")
            words(MARGIN, y + 0.15, row.words, fontsize=7, color=MUTED)
            y += top
            draw_image(axes_at(0, y, height), row)
            for number, cell in enumerate(row.cells, 1):
                draw_map(axes_at(number, y, height), row.target, cell)
                if cell.share is not None and cell.found is not None:
                    draw_share(axes_at(number, y - STRIP - 0.02, STRIP), cell.share.value)
            y += height + CAPTION
        _draw_bar(figure, axes_at(1, y + 0.06, 0.07))
        if share := next((row.share for row in rows if row.share), None):
            _draw_share_bar(figure, axes_at(0, y + 0.06, 0.07, share=0.85), share.label)
        return figure


def _height(target: TargetMaps, side: float) -> float:
    height, width = target.pixels.shape[:2]
    return side * min(height / width, TALLEST)


def _mark(patch: int) -> str:
    return MARKS[patch % len(MARKS)]


def _subtitle(
    targets: Sequence[TargetMaps], columns: Sequence[MapColumn], name: str, every_head: bool
) -> str:
    num_images = targets[0].maps[0].num_images
    mean = f"mean attention over {num_images} images" if num_images > 1 else "attention"
    parts = [
        f"{name} · {mean} between patches, rows renormalised · colour: attention relative to "
        "uniform attention, on one logarithmic scale for all maps"
    ]
    if not every_head and all(column.patch is not None for column in columns):
        parts.append("no [CLS] column: no class token takes part in these layers")
    if any(target.maps[0].num_windows > 1 for target in targets):
        parts.append("grey: outside the window, where a patch cannot attend")
    return " · ".join(parts)


def draw_image(axes: Axes, row: MapRow) -> None:
    """Draw the image as the model sees it, with the chosen patches marked."""
    _on_image(axes, row.target, row.target.pixels)
    for index in row.marked:
        _outline(axes, row.target, index)


def draw_map(axes: Axes, target: TargetMaps, cell: MapCell) -> None:
    """Draw a map with its query patch and its caption, or the reason why there is none."""
    if cell.found is None:
        axes.set_axis_off()
        axes.text(0.5, 0.5, cell.missing, ha="center", va="center", color=MUTED, fontsize=7.5)
        return
    from matplotlib import colormaps

    colours = colormaps["viridis"].with_extremes(bad=RULE)
    _on_image(axes, target, cell.found.times_uniform, cmap=colours, norm=map_scale())
    if cell.patch is not None:
        _outline(axes, target, cell.patch)
    axes.set_xlabel(cell.caption, fontsize=6.5, color=MUTED, loc="left", labelpad=2)


def draw_share(axes: Axes, share: float) -> None:
    """Fill a strip with the colour of a head's share."""
    axes.set_facecolor(_share_colours()(share))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(MUTED)
    axes.spines[:].set_linewidth(0.5)


def _on_image(axes: Axes, target: TargetMaps, values: np.ndarray, **colours: Any) -> None:
    """Draw values over the whole image, in the coordinates of its pixels."""
    height, width = target.pixels.shape[:2]
    axes.imshow(values, extent=(0, width, height, 0), interpolation="nearest", **colours)
    axes.set_anchor("NW")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _outline(axes: Axes, target: TargetMaps, index: int) -> None:
    """Draw the frame of a chosen patch, with a white and a dark edge to be visible anywhere."""
    from matplotlib.patches import Rectangle

    (height, width), maps = target.pixels.shape[:2], target.maps[0]
    down, right = height / maps.grid.rows, width / maps.grid.cols
    y, x = maps.patches[index]
    for colour, line in (("#000000", 2.6), ("#ffffff", 2.0), (_mark(index), 1.2)):
        style: dict[str, Any] = {"edgecolor": colour, "linewidth": line, "joinstyle": "miter"}
        corner = (x * right, y * down)
        axes.add_patch(Rectangle(corner, right, down, fill=False, clip_on=False, **style))


def map_scale() -> Any:
    """Return the scale of every attention map: relative to uniform attention, logarithmic."""
    from matplotlib.colors import LogNorm

    return LogNorm(min(SCALE), max(SCALE), clip=True)


def _share_colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("share", SHARES)


def _draw_bar(figure: Figure, axes: Axes) -> None:
    """Draw the colour bar of the maps."""
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(map_scale(), "viridis"), cax=axes, orientation="horizontal",
        ticks=list(SCALE), format=lambda value, _: SCALE[value],
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.ax.minorticks_off()
    _label(bar, "relative to uniform attention")


def _draw_share_bar(figure: Figure, axes: Axes, label: str) -> None:
    """Draw the colour bar of the strips."""
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(cmap=_share_colours()), cax=axes, orientation="horizontal",
        ticks=[0, 0.5, 1], format="%g",
    )  # fmt: skip
    bar.outline.set_color(MUTED)
    bar.outline.set_linewidth(0.5)
    _label(bar, label)


def _label(bar: Any, text: str) -> None:
    bar.ax.tick_params(length=2, labelsize=7, pad=1.5)
    bar.set_label(text, fontsize=7, labelpad=1)
