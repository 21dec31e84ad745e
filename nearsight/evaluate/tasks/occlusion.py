"""Score a model while parts of the image are hidden, shuffled or pasted over.

The task follows Naseer et al. (2021), but draws a mask for every image and every draw, where they
draw one for a batch, and takes the mean over five draws instead of one. A curve is the accuracy by
the share of the image that is removed; its area is the mean accuracy from 0 to the largest share.
For ``shuffle`` the image is cut into cells that change places, and the curve is by the number of
cells.

random   hide patches that are drawn at random
centre   hide the patches nearest to the middle first
salient  hide the patches first that the class token attends to most in the last layer
shuffle  put cells in random order
paste    paste a rectangle of another image
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.data.draws import uniform
from nearsight.evaluate.features import Split, Tapped
from nearsight.evaluate.tasks.class_attention import last_class_row
from nearsight.evaluate.tasks.occluded_images import (
    FILLS,
    Images,
    centre_order,
    fill_values,
    hidden_patches,
    hide,
    paste_rectangles,
    shuffle_cells,
)
from nearsight.evaluate.tasks.task import Bench, Method, Task, TaskNumber, check_least
from nearsight.measure.capture import evaluation_mode
from nearsight.stats import image_intervals, weighted_mean

SHARES = tuple(share / 10 for share in range(1, 10))
CELLS = (2, 4, 7, 14)  # cells along a side of the image
KINDS = ("random", "centre", "salient", "shuffle", "paste")
DRAWN = ("random", "shuffle", "paste")  # kinds that depend on random numbers
OPTIONS = {"fill": "black", "draws": 5, "kinds": ",".join(KINDS)}


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options ``kinds``, ``fill`` and ``draws``.

    Raises:
        UserError: If a kind or the fill is unknown, or there is less than one draw.
    """
    if unknown := [kind for kind in _kinds(options) if kind not in KINDS]:
        raise UserError(f"kinds has {unknown[0]!r}, but the kinds are {', '.join(KINDS)}")
    if options["fill"] not in FILLS:
        raise UserError(f"fill is {options['fill']!r}, but it must be one of {', '.join(FILLS)}")
    check_least(options, draws=1)


def _kinds(options: Mapping[str, Any]) -> list[str]:
    return [word.strip() for word in str(options["kinds"]).split(",")]


def run_occlusion(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the plain accuracy, and for each kind the area under its curve.

    The details of an area contain the curve.
    """
    draws, fill = int(bench.options["draws"]), str(bench.options["fill"])
    kinds = _kinds(bench.options)
    _check_classes(bench)
    plain: list[np.ndarray] = []
    hits: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
    left_out: dict[str, str] = {}
    start = 0
    for images in bench.images(bench.val):
        numbers = torch.arange(start, start + len(images))
        right = _scorer(bench, start)
        plain.append(right(images))
        for kind in kinds:
            if kind in left_out:
                continue
            try:
                levels = list(_occluded(bench, kind, images, numbers, draws, fill))
            except UserError as problem:
                left_out[kind] = str(problem)
                continue
            scored = [np.mean([right(x) for x in level], 0) for level in levels]
            hits[kind].append(np.stack(scored, 1))  # [image, level]
        start += len(images)
        if bench.progress:
            bench.progress(start, len(bench.val))
    settings: dict[str, Any] = {
        **bench.settings(),
        "chosen_on": "nothing is chosen",
        "masks": "one for each image and draw",
        "left_out": left_out,
        "chance": 1 / len(bench.val.classes),
    }
    whole = np.concatenate(plain)
    yield TaskNumber("accuracy", whole, weighted_mean, settings)
    for kind, found in hits.items():
        if kind not in left_out:
            yield _area(kind, np.concatenate(found), whole, settings)


def _area(kind: str, found: np.ndarray, plain: np.ndarray, settings: dict[str, Any]) -> TaskNumber:
    """Return the mean over images of the area under each image's curve."""
    curve = np.column_stack([plain, found])  # [image, level]
    levels = [1, *(side**2 for side in CELLS)] if kind == "shuffle" else [0.0, *SHARES]
    if kind == "shuffle":
        areas = found.mean(1)
    else:
        widths = np.diff(levels)
        areas = ((curve[:, 1:] + curve[:, :-1]) / 2 * widths).sum(1) / widths.sum()
    points = image_intervals(_columns, curve)
    details = {
        "levels": levels,
        "accuracy": [[point.value, point.low, point.high] for point in points],
    }
    return TaskNumber(f"{kind} area", areas, weighted_mean, settings, details)


def _columns(records: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mean of every column, with each row counted ``counts`` times."""
    return counts @ records / counts.sum(-1, keepdims=True)


def _scorer(bench: Bench, start: int) -> Callable[[Images], np.ndarray]:
    model, labels = bench.subject.model, bench.val.labels
    assert model is not None
    assert labels is not None

    @torch.no_grad()
    def right(images: Images) -> np.ndarray:
        with evaluation_mode(model) as inner:
            predicted = inner(images).argmax(-1).cpu().numpy()
        return np.asarray(predicted == labels[start : start + len(images)], np.float32)

    return right


def _check_classes(bench: Bench) -> None:
    model = bench.subject.model
    assert model is not None
    with torch.no_grad(), evaluation_mode(model) as inner:
        num = inner(next(bench.images(bench.val))[:1]).shape[-1]
    if num != len(bench.val.classes):
        raise UserError(
            f"{bench.subject.name} has {num} classes, but {bench.val.data} has "
            f"{len(bench.val.classes)}; give the data set that the model was trained on with --data"
        )


def _occluded(
    bench: Bench, kind: str, images: Images, numbers: Tensor, draws: int, fill: str
) -> Iterator[list[Images]]:
    """Yield the occluded images of every level and draw of a kind."""
    assert isinstance(bench.subject.extractor, Tapped)
    assert bench.subject.model is not None
    grid = bench.subject.extractor.taps[0].layout.grid
    num = range(draws if kind in DRAWN or fill == "noise" else 1)
    if kind == "shuffle":
        for side in CELLS:
            cells = side**2
            yield [
                shuffle_cells(images, side, uniform("shuffle", side, draw, numbers, num=cells))
                for draw in num
            ]
        return
    if kind == "paste":
        after = _prepared(bench, (int(numbers[-1]) + 1) % len(bench.val))
        others = torch.cat([images[1:], after.to(images)])  # the next image, whatever the batch
        for share in SHARES:
            key = round(10 * share)
            yield [
                paste_rectangles(images, others, share, uniform("paste", key, draw, numbers, num=3))
                for draw in num
            ]
        return
    patches = grid.num_patches
    if kind == "random":
        orders = [uniform("drop", draw, numbers, num=patches) for draw in num]
    elif kind == "centre":
        orders = [centre_order(grid, len(images)) for _ in num]
    else:
        orders = [-last_class_row(bench.subject.model, images, grid).mean(1).cpu() for _ in num]
    steps = bench.preparation().steps
    fills = [fill_values(images, fill, steps, draw, numbers) for draw in num]
    for share in SHARES:
        yield [
            hide(images, hidden_patches(order, share).to(images.device), grid, values)
            for order, values in zip(orders, fills)
        ]


def _prepared(bench: Bench, number: int) -> Images:
    """Return an image of the scored split, prepared for the model."""
    preparation = bench.preparation()
    pixels = np.ascontiguousarray(preparation.pixels(bench.val.image(number)))
    return preparation.steps.normalise(torch.from_numpy(pixels)[None])


def _passes(bench: Bench) -> list[tuple[Split, float]]:
    """Return how many forward passes an image takes: one, and one per kind, level and draw."""
    draws, noisy = int(bench.options["draws"]), bench.options["fill"] == "noise"
    passes = 1
    for kind in _kinds(bench.options):
        drawn = kind in DRAWN or noisy
        passes += len(CELLS if kind == "shuffle" else SHARES) * (draws if drawn else 1)
    return [(bench.val, passes)]


OCCLUSION = Task(
    "occlusion",
    "labels",
    run_occlusion,
    (Method("patches", place="norm", options=OPTIONS, check=check_options),),
    controls=(),
    of_features=False,
    trains=False,
    passes=_passes,
)
