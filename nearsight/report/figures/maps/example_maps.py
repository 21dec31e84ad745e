"""Draw attention maps of the example images of ``nearsight measure``, conditions side by side.

Colour is attention relative to uniform attention, on the scale of all attention maps
(map_panels.py).
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.figures.maps.map_panels import map_scale
from nearsight.report.read import ConditionRuns, Evidence, Family
from nearsight.runs import Examples, LayerPlaces, read_examples_contents
from nearsight.runs.records import MEASURE_FILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_IMAGES, MOST_CONDITIONS = 4, 4
PANEL = (1.62, 1.85)  # inches
SHOWN_PIXELS = 160  # of the longer side; small, because a page has many of these pictures


@dataclass(frozen=True)
class Seen:
    """The example images of a condition's first run, and two maps of each."""

    condition: ConditionRuns
    names: list[str]
    pictures: list[np.ndarray]  # [h, w, 3]
    patch: tuple[int, int]  # row and column in the grid of the first layer
    grid: tuple[int, int]
    local: list[np.ndarray]  # relative to uniform attention, of the most local head
    local_place: str
    last: list[np.ndarray]  # of the last layer, mean over heads
    last_place: str


def example_maps(family: Family, key: str, subtitle: str) -> list[Drawing]:
    """Return figures of the most local head and of the last layer; none without examples.

    They show at most four conditions: those with examples on the same images as the first one.
    """
    seen: list[Seen] = []
    for condition in family.conditions:
        found = _seen(condition)
        if found and (not seen or found.names == seen[0].names) and len(seen) < MOST_CONDITIONS:
            seen.append(found)
    if not seen:
        return []
    return [_drawing(seen, key, subtitle, which) for which in ("local", "last")]


def _seen(condition: ConditionRuns) -> Seen | None:
    run = condition.runs[0]
    contents = read_examples_contents(run.path)
    if contents is None:
        return None
    contents["images"] = contents["images"][:NUM_IMAGES]
    examples = Examples.of_contents(contents)
    layer, head = _most_local(run)
    first, last = examples.layers[0], len(examples.layers) - 1
    patch = first.rows // 2, first.cols // 2
    return Seen(
        condition=condition,
        names=[image.name for image in examples.images],
        pictures=[_pixels(image.source) for image in examples.images],
        patch=patch,
        grid=(first.rows, first.cols),
        local=[_map(x.layers[layer].weights(examples.layers[layer])[head], examples.layers[layer],
                    patch, first) for x in examples.images],
        local_place=f"layer {layer + 1}, head {head + 1}",
        last=[_map(x.layers[last].weights(examples.layers[last]).mean(0), examples.layers[last],
                   patch, first) for x in examples.images],
        last_place=f"layer {last + 1}, mean over heads",
    )  # fmt: skip


def _most_local(run: Evidence) -> tuple[int, int]:
    """Return layer and head of the smallest MAD, counted from 0."""
    least = MEASURE_FILE.needed(run.path, "summary.min_mad", run.measure.summary.smallest("mad"))
    return least.layer - 1, least.head - 1


def _map(
    rows: np.ndarray, at: LayerPlaces, patch: tuple[int, int], first: LayerPlaces
) -> np.ndarray:
    """Return where a patch attends, relative to uniform attention, as [row, col]."""
    row = int((patch[0] + 0.5) * at.rows / first.rows)
    col = int((patch[1] + 0.5) * at.cols / first.cols)
    weights = rows[at.query_prefix + row * at.cols + col, at.key_prefix :].astype(np.float64)
    total = weights.sum() or 1.0
    return (weights / total * at.num_cells).reshape(len(at.key_rows), len(at.key_cols))


def _pixels(source: str) -> np.ndarray:
    """Decode the picture of an example and scale it down."""
    from PIL import Image

    content = base64.b64decode(source.partition(",")[2])
    with Image.open(io.BytesIO(content)) as image:
        small = image.convert("RGB")
        small.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
        return np.asarray(small)


def _drawing(seen: Sequence[Seen], key: str, subtitle: str, which: str) -> Drawing:
    first = seen[0]
    titles = _titles([each.condition.label if len(seen) > 1 else "" for each in seen])
    panels: list[Panel] = []
    for number in range(len(first.names)):
        image = f"image {number + 1}" + "\n" * titles[0].count("\n")
        panels.append(Panel(image, partial(_draw_image, seen=first, number=number)))
        for each, title in zip(seen, titles, strict=True):
            found = each.local if which == "local" else each.last
            panels.append(Panel(title, partial(_draw_map, found=found[number], seen=each)))
    places = {each.condition.label: each.local_place if which == "local" else each.last_place
              for each in seen}  # fmt: skip
    listed = "; ".join(f"{label} {place}" for label, place in places.items())
    what = "The most local head" if which == "local" else "The last layer"
    return Drawing(
        key=f"{key}-{which}",
        title=f"{what} on {len(first.names)} example images",
        subtitle=f"{subtitle} · one seed",
        reading=f"The maps show where the framed patch attends ({listed}). Colour is attention "
        "relative to uniform attention, from a quarter of it (dark) to 64 times as much (bright).",
        alt=f"Attention maps of the patch in the middle of {len(first.names)} example images: "
        + "; ".join(f"{each.condition.label}, {_spread_words(each, which)}" for each in seen)
        + ".",
        panels=tuple(panels),
        columns=("condition", "image", "row", "column", "times_uniform"),
        rows=tuple(_rows(seen, which)),
        panel_size=PANEL,
        per_row=1 + len(seen),
        keeps_rows=True,
    )


def _spread_words(seen: Seen, which: str) -> str:
    """Say how much of the attention stays near the patch."""
    found = seen.local if which == "local" else seen.last
    shares = []
    for each in found:
        row = int((seen.patch[0] + 0.5) * each.shape[0] / seen.grid[0])
        col = int((seen.patch[1] + 0.5) * each.shape[1] / seen.grid[1])
        near = each[max(0, row - 1) : row + 2, max(0, col - 1) : col + 2]
        shares.append(near.sum() / each.sum())
    return f"{100 * float(np.mean(shares)):.0f} % of it within the 3x3 box around the patch"


def _rows(seen: Sequence[Seen], which: str) -> list[tuple[Any, ...]]:
    return [
        (each.condition.label, name, row + 1, col + 1, float(found[row, col]))
        for each in seen
        for name, found in zip(each.names, each.local if which == "local" else each.last)
        for row, col in np.ndindex(*found.shape)
    ]


def _draw_image(axes: Axes, seen: Seen, number: int) -> None:
    axes.imshow(seen.pictures[number], extent=(0, seen.grid[1], seen.grid[0], 0), aspect="auto")
    _frame(axes, seen)


def _draw_map(axes: Axes, found: np.ndarray, seen: Seen) -> None:
    axes.imshow(
        found, cmap="viridis", norm=map_scale(), interpolation="none",
        extent=(0, seen.grid[1], seen.grid[0], 0), aspect="auto",
    )  # fmt: skip
    _frame(axes, seen)


def _frame(axes: Axes, seen: Seen) -> None:
    """Mark the patch and leave out the axes."""
    from matplotlib.patches import Rectangle

    row, col = seen.patch
    for colour, width in (("#000000", 2.4), ("#ffffff", 1.2)):
        axes.add_patch(Rectangle((col, row), 1, 1, fill=False, edgecolor=colour, linewidth=width))
    axes.set_box_aspect(seen.pictures[0].shape[0] / seen.pictures[0].shape[1])
    axes.set_axis_off()


def _titles(labels: Sequence[str]) -> list[str]:
    r"""Wrap labels into one or two lines, all of them into equally many.

    Panels with equally many lines above them have maps of one height.

    >>> _titles(["plain", "nano_vit by baseline+cutmix"])
    ['plain\n', 'nano_vit by\nbaseline+cutmix']
    """
    wrapped = [textwrap.wrap(label, 20, max_lines=2, placeholder=" …") for label in labels]
    most = max(map(len, wrapped))
    return ["\n".join(lines + [""] * (most - len(lines))) for lines in wrapped]
