"""Compute and measure null lines: the values of metrics that need no learning, or no whole image.

Two lines need no model: uniform attention, and attention spread evenly over the 3x3 box. Two are
measured. The same architecture at random initialisation shows what training has changed. The model
on images with shuffled patches shows how much of its locality comes from the contents of patches
and not from their places in the picture.
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

NULL_IMAGES = 64  # number of images for the two lines that are measured
SEED = 0  # for the order of shuffled patches


def null_lines(grid: Grid, metrics: Iterable[str] = ()) -> dict[str, float]:
    """Return the metrics of uniform attention and of an even 3x3 box (cut at the edge) on a grid.

    Args:
        grid: Rows and columns of patches.
        metrics: Names of the metrics that were measured; those that are not measured by default
            have lines only if they are named here.

    Returns:
        Numbers with names such as ``uniform_mad`` and ``box_mad``.

    >>> round(null_lines(Grid(8, 8))["uniform_mad"], 4)
    0.4178
    """
    names = with_nulls(metrics)
    return {f"uniform_{name}": _uniform_line(name, grid) for name in names} | {
        f"box_{name}": _box_line(name, grid) for name in names
    }


@cache
def _uniform_line(name: str, grid: Grid) -> float:
    """Return a metric of uniform attention, in closed form if the metric has one."""
    closed_form = mathematics(metric(name)).uniform
    if closed_form is not None:
        return closed_form(grid)
    everywhere = torch.full((1, 1, grid.num_patches, grid.num_patches), 1 / grid.num_patches)
    return metric_of_attention(metric(name), everywhere.double(), grid).item()


@cache
def _box_line(name: str, grid: Grid) -> float:
    """Return a metric of attention spread evenly over the 3x3 box."""
    near = grid.box().double()
    box = (near / near.sum(-1, keepdim=True))[None, None]
    return metric_of_attention(metric(name), box, grid).item()


def shuffled_patches(
    images: Float[Tensor, "image channel height width"], grid: Grid, first: int = 0
) -> Float[Tensor, "image channel height width"]:
    """Return images with their patches in random order, a new order for every image.

    Args:
        images: The images, whose patches are moved but not changed.
        grid: Rows and columns of patches, which must divide the images.
        first: Number of the first image. The order of an image's patches depends only on the number
            of the image.

    Raises:
        UserError: If the grid does not divide the images.
    """
    height, width = images.shape[-2:]
    if height % grid.rows or width % grid.cols:
        raise UserError(
            f"the patches of images of {height}x{width} pixels cannot be shuffled, because a "
            f"{grid} grid does not divide the images; choose another image size"
        )
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


def measure_nulls(
    model: nn.Module,
    fresh: nn.Module,
    batches: Iterable[Tensor],
    profile: Profile,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Measure the mean of every layer for an untrained model, and on images with shuffled patches.

    The line of shuffled patches is left out if the grid does not divide the images.

    Args:
        model: The measured model.
        fresh: The same architecture at random initialisation.
        batches: A few of the images that ``profile`` was measured on.
        profile: The measurement, which gives the metrics and the convention.
        progress: Called with the number of images done, counted over both lines.

    Returns:
        Contents for measure.json, by the name of the line.
    """
    images = list(batches)
    first = sum(map(len, images))

    def report_second_line(done: int) -> None:
        if progress:
            progress(first + done)

    convention = profile.convention.name
    metrics = with_nulls(profile.metrics)
    options: dict[str, Any] = {"convention": convention, "metrics": metrics}
    untrained = measure_model(fresh, images, **options, progress=progress)
    lines = {"random_init": _layer_means(untrained)}
    height, width = images[0].shape[-2:]
    if height % profile.grid.rows == 0 and width % profile.grid.cols == 0:
        batches = _shuffled(images, profile)
        shuffled = measure_model(model, batches, **options, progress=report_second_line)
        lines["shuffled_patches"] = _layer_means(shuffled)
    return lines


def _shuffled(batches: Iterable[Tensor], profile: Profile) -> Iterator[Tensor]:
    """Yield the batches with shuffled patches."""
    first = 0
    for batch in batches:
        yield shuffled_patches(batch, profile.grid, first)
        first += len(batch)


def _layer_means(profile: Profile) -> dict[str, Any]:
    """Return the mean over heads and images of every layer, with the number of images."""
    means = {
        f"layer_mean_{name}": [float(values.mean()) for values in estimates.values]
        for name, estimates in profile.metrics.items()
    }
    return {"num_images": profile.num_images, **means}
