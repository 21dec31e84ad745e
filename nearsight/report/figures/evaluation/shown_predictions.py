"""Show predicted masks beside the truth, and the nearest training patches of some patches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearsight.report.figures.drawing import Drawing, Panel
from nearsight.report.read import EvaluatedFolder, last_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VOID = 255
GAP = 4  # pixels between pictures


def label_colours(labels: np.ndarray) -> np.ndarray:
    """Return a colour for every label: dark for 0, light grey for unlabelled pixels.

    >>> label_colours(np.array([0, 255])).tolist()
    [[30, 30, 30], [225, 225, 225]]
    """
    from matplotlib import colormaps

    table = np.full((256, 3), 225, np.uint8)
    steps = np.arange(1, VOID) * 0.6180339887 % 1  # consecutive labels get very different hues
    table[1:VOID] = (255 * np.asarray(colormaps["hsv"](steps))[:, :3] * 0.85).astype(np.uint8)
    table[0] = 30
    return table[labels]


def tile(rows: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Arrange pictures of one size in rows with white gaps between them."""
    height, width = rows[0][0].shape[:2]
    across, down = max(map(len, rows)), len(rows)
    sheet = np.full((down * (height + GAP) - GAP, across * (width + GAP) - GAP, 3), 255, np.uint8)
    for row, pictures in enumerate(rows):
        for col, picture in enumerate(pictures):
            top, left = row * (height + GAP), col * (width + GAP)
            sheet[top : top + height, left : left + width] = picture
    return sheet


def draw_sheet(axes: Axes, sheet: np.ndarray) -> None:
    """Draw a sheet of pictures without axes."""
    axes.imshow(sheet, interpolation="nearest")
    axes.set_axis_off()


def predicted_masks(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of images, truth and predictions; None if none were kept."""
    panels, rows = [], []
    for folder in folders:
        for result in last_layers(folder).values():
            found = folder.examples(result.numbers[0])
            if "truth" not in found:
                continue
            truth, guess = label_colours(found["truth"]), label_colours(found["predicted"])
            sheet = tile([list(found["image"]), list(truth), list(guess)])
            title = f"{folder.name}, {result.method}"
            panels.append(Panel(title, partial(draw_sheet, sheet=sheet)))
            known = found["truth"] != VOID
            for i, (true, predicted) in enumerate(zip(found["truth"], found["predicted"])):
                share = float((true == predicted)[known[i]].mean())
                rows.append((folder.name, result.method, i + 1, share))
    if not panels:
        return None
    return Drawing(
        key=key,
        title="What frozen features predict",
        subtitle="images at equal steps of the scored split, not hand-picked",
        reading="From top to bottom: the image, the true masks (light grey: pixels without a "
        "label) and the predicted masks. A class has the same colour everywhere; the first class "
        "is dark.",
        alt=f"Predicted masks beside the truth for {len(panels)} methods and models.",
        panels=tuple(panels),
        columns=("model", "method", "image", "pixel_accuracy"),
        rows=tuple(rows),
        panel_size=(4.4, 3.5),
    )


def nearest_patches(folders: Sequence[EvaluatedFolder], key: str) -> Drawing | None:
    """Return the figure of patches with their nearest training patches; None if none were kept."""
    panels = []
    rows: list[tuple[str, str, int, int]] = []
    for folder in folders:
        for result in last_layers(folder).values():
            found = folder.examples(result.numbers[0])
            if "neighbours" not in found:
                continue
            sheet = tile([list(each) for each in found["neighbours"]])
            title = f"{folder.name}, {result.method}"
            panels.append(Panel(title, partial(draw_sheet, sheet=sheet)))
            rows += [
                (folder.name, result.method, i + 1, len(each) - 1)
                for i, each in enumerate(found["neighbours"])
            ]
    if not panels:
        return None
    return Drawing(
        key=key,
        title="Which training patches are nearest?",
        subtitle="patches in the middle of images at equal steps, not hand-picked",
        reading="On the left is a patch of a scored image with its surroundings. To its right are "
        "the training patches whose features have the largest cosine with its own, the nearest "
        "first.",
        alt=f"Nearest training patches for {len(panels)} models.",
        panels=tuple(panels),
        columns=("model", "method", "patch", "num_neighbours"),
        rows=tuple(rows),
        panel_size=(4.4, 3.0),
    )
