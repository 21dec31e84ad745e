"""Segment by k-NN with the labels of all pixels of a patch, as CAPI does (Darcet et al. 2025).

Features are standardised on the training patches. The k nearest training patches, by cosine or by
distance, vote at every pixel of a patch with the label that they have there. k and the measure are
chosen by mIoU on every tenth training image; images and masks are squashed to the model's size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import VOID
from nearsight.evaluate.features import Features, Split, resize_labels
from nearsight.evaluate.solvers import Nearness, feature_scale, nearest, search_seconds
from nearsight.evaluate.tasks.segmentation.logreg import HELD_OUT
from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
    Maps,
    score_images,
    scoring_seconds,
    segmentation_findings,
)
from nearsight.evaluate.tasks.task import Bench, Method, TaskNumber
from nearsight.models.layers import Grid
from nearsight.stats import miou

NEIGHBOURS = (1, 3, 10, 30)
MEASURES: tuple[Nearness, ...] = ("cosine", "euclidean")


def label_tiles(split: Split, grid: Grid, size: tuple[int, int]) -> UInt8[np.ndarray, "patch tile"]:
    """Return the labels of every pixel of every patch, a byte for each.

    Raises:
        UserError: If patches do not divide the image.
    """
    if size[0] % grid.rows or size[1] % grid.cols:
        raise UserError(
            f"capi-knn needs patches that divide the image, but there are {grid.rows}x{grid.cols} "
            f"patches in {size[0]}x{size[1]} pixels; choose another --image-size"
        )
    found = []
    for number in range(len(split)):
        mask = resize_labels(split.mask(number), size).astype(np.uint8)
        tiles = mask.reshape(grid.rows, size[0] // grid.rows, grid.cols, -1).swapaxes(1, 2)
        found.append(tiles.reshape(grid.rows * grid.cols, -1))
    return np.concatenate(found)


def tile_votes(
    neighbours: Int[np.ndarray, "patch k"],
    tiles: UInt8[np.ndarray, "memory tile"],
    grid: Grid,
    size: tuple[int, int],
    num_classes: int,
) -> Tensor:
    """Count the votes [cls, h, w] for an image; a pixel without a label does not vote."""
    num, tile = len(neighbours), tiles.shape[1]
    labels = tiles[neighbours].astype(np.int64)  # [patch, k, tile]
    places = np.arange(num)[:, None, None] * tile + np.arange(tile)  # [patch, 1, tile]
    cells = np.broadcast_to(places, labels.shape) * num_classes + labels
    counts = np.bincount(cells[labels != VOID], minlength=num * tile * num_classes)
    deep = counts.reshape(grid.rows, grid.cols, size[0] // grid.rows, -1, num_classes)
    whole = deep.transpose(4, 0, 2, 1, 3).reshape(num_classes, *size)
    return torch.from_numpy(whole.astype(np.float32))


def capi_knn_seconds(bench: Bench) -> float:
    """Return the expected time of the three searches and of scoring each k and measure."""
    num_memory, num_queries = (len(x) * bench.sizes.num_patches for x in (bench.train, bench.val))
    k = max(NEIGHBOURS)
    search = search_seconds(num_memory, num_queries, bench.sizes.width, k)
    held_out = len(bench.train) / HELD_OUT / len(bench.val)  # times the images of val
    choices = len(MEASURES) * (len(NEIGHBOURS) * scoring_seconds(bench) + search)
    return search + scoring_seconds(bench) + held_out * choices


def run_capi_knn(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the numbers for the k and the measure that are best on held-out training images."""
    train, val = bench.features(bench.train), bench.features(bench.val)
    grid, size = train.grid, bench.subject.size
    num_classes, per_image = len(bench.train.classes), grid.rows * grid.cols
    flat = train.patches.reshape(-1, train.width)
    everything = np.arange(len(flat))
    scale = feature_scale(flat, everything)
    tiles = label_tiles(bench.train, grid, size)
    held_out = np.arange(HELD_OUT - 1, len(bench.train), HELD_OUT)
    if not len(held_out):
        raise UserError(
            f"k is chosen on every {HELD_OUT}th training image, but there are only "
            f"{len(bench.train)}; use more with --num-train"
        )

    def neighbours(of: Features, rows: np.ndarray, k: int, by: Nearness) -> np.ndarray:
        queries = of.patches.reshape(-1, of.width)
        _, found = nearest(
            flat, queries, k, by=by, prepare=scale, rows=rows, progress=bench.progress
        )
        return found.numpy()

    def maps(found: np.ndarray, k: int) -> Maps:
        def votes(number: int) -> Tensor:
            rows = slice(number * per_image, (number + 1) * per_image)
            return tile_votes(found[rows, :k], tiles, grid, size, num_classes)

        return votes

    split = bench.train.part(held_out, "held out")
    held_features = Features(train.patches[held_out], None, grid, train.key)
    others = everything[~np.isin(everything // per_image, held_out)]
    scores: dict[tuple[Nearness, int], float] = {}
    for by in MEASURES:
        found = neighbours(held_features, others, max(NEIGHBOURS), by)
        for k in NEIGHBOURS:
            matrices = score_images(split, maps(found, k), num_classes, label_size=size)
            scores[by, k] = float(miou(matrices.whole, np.ones(len(split))))
    by, k = max(scores, key=lambda each: scores[each])
    found = neighbours(val, everything, k, by)
    matrices = score_images(
        bench.val, maps(found, k), num_classes, label_size=size, progress=bench.progress
    )
    settings = {
        **bench.settings(),
        "k": k,
        "nearest_by": by,
        "label_size": list(size),
        "void": "does not vote and is not scored",
        "chosen_on": f"k and the measure on every {HELD_OUT}th training image",
        "tried": {f"{by} {k}": round(value, 5) for (by, k), value in scores.items()},
        "standardised": "by mean and deviation of the training patches",
    }
    yield from segmentation_findings(matrices, bench.val.classes, settings)


CAPI_KNN = Method("capi-knn", "norm", seconds=capi_knn_seconds)
