"""Null lines: what attention without learning, or without an image, would score.

Two need no model: uniform attention and an even 3x3 box. Two are measured: the same architecture at
random initialisation (what training added), and the model on images whose patches were shuffled
before it (what comes from content rather than from where patches lie in the picture).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.measure.catalogue import metric, with_nulls
from nearsight.measure.metrics import mathematics, metric_of_attention
from nearsight.measure.profile.profile import Profile, measure_model
from nearsight.models.layers import Grid

NULL_IMAGES = 64  # for the two lines that are measured
SEED = 0  # of the shuffles


def null_lines(grid: Grid, metrics: Iterable[str] = ()) -> dict[str, float]:
    """Return what uniform attention and an even 3x3 box (cut at the edge) score on this grid.

    ``metrics`` are names of further metrics that were measured, beside the default ones.
    """
    names = with_nulls(metrics)
    return {f"uniform_{name}": _uniform_line(name, grid) for name in names} | {
        f"box_{name}": _box_line(name, grid) for name in names
    }


@cache
def _uniform_line(name: str, grid: Grid) -> float:
    known = mathematics(metric(name)).uniform
    if known is not None:
        return known(grid)
    everywhere = torch.full((1, 1, grid.num_patches, grid.num_patches), 1 / grid.num_patches)
    return metric_of_attention(metric(name), everywhere.double(), grid).item()


@cache
def _box_line(name: str, grid: Grid) -> float:
    near = grid.box().double()
    box = (near / near.sum(-1, keepdim=True))[None, None]
    return metric_of_attention(metric(name), box, grid).item()


def shuffled_patches(
    images: Float[Tensor, "image channel height width"], grid: Grid, first: int = 0
) -> Float[Tensor, "image channel height width"]:
    """Images with their patches in random order, a new one for every image.

    The order is a function of the image's number (``first`` and on). No patch is changed.
    """
    height, width = images.shape[-2:]
    if height % grid.rows or width % grid.cols:
        raise UserError(f"expected images that a {grid} grid divides, got {height}x{width} pixels")
    sizes = (grid.rows, height // grid.rows), (grid.cols, width // grid.cols)
    patches = images.unflatten(-1, sizes[1]).unflatten(-3, sizes[0])  # [n, c, row, y, col, x]
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # [n, patch, c, y, x]
    orders = [
        draws.permutation("shuffled patches", SEED, first + number, length=grid.num_patches)
        for number in range(len(images))
    ]
    moved = torch.stack([x[order.to(x.device)] for x, order in zip(patches, orders)])
    moved = moved.unflatten(1, (grid.rows, grid.cols)).permute(0, 3, 1, 4, 2, 5)
    return moved.reshape(images.shape)


def measured_nulls(
    model: nn.Module,
    fresh: nn.Module,
    batches: Iterable[Tensor],
    profile: Profile,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Layer means of ``fresh`` (the architecture at random initialisation), and of shuffled images.

    ``batches`` are a few of the images that ``profile`` was measured on. Images that the grid does
    not divide have no patches to shuffle: that line is left out. ``progress`` is told the images
    done, over both lines.
    """
    given = list(batches)
    first = sum(map(len, given))

    def second(done: int) -> None:
        if progress:
            progress(first + done)

    convention = profile.convention.name
    metrics = with_nulls(profile.metrics)
    options: dict[str, Any] = {"convention": convention, "metrics": metrics}
    untrained = measure_model(fresh, given, **options, progress=progress)
    found = {"random_init": _layer_means(untrained)}
    height, width = given[0].shape[-2:]
    if height % profile.grid.rows == 0 and width % profile.grid.cols == 0:
        batches = _shuffled(given, profile)
        shuffled = measure_model(model, batches, **options, progress=second)
        found["shuffled_patches"] = _layer_means(shuffled)
    return found


def _shuffled(batches: Iterable[Tensor], profile: Profile) -> Iterator[Tensor]:
    first = 0
    for batch in batches:
        yield shuffled_patches(batch, profile.grid, first)
        first += len(batch)


def _layer_means(profile: Profile) -> dict[str, Any]:
    """Mean over heads and images of every layer, with the number of images."""
    means = {
        f"layer_mean_{name}": [float(values.mean()) for values in estimates.values]
        for name, estimates in profile.metrics.items()
    }
    return {"num_images": profile.num_images, **means}
