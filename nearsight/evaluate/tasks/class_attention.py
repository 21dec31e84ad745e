"""Use the attention of the class token as a segmentation of the image, as Naseer et al. (2021).

The mask of a head is the fewest patches that together get 90 % of its attention. Each object of an
image is compared with the head that fits it best; the number is the mean over the objects of an
image, and then over images. An object is a class that occurs in the image, other than background.

Jaccard            pixels without a label are left out
Jaccard, all heads one mask from the mean of the heads, so that no head is chosen by the truth
Jaccard (compat)   as published: pixels without a label belong to no object, but a mask loses by
                   covering them (the published code means to leave them out, but compares the
                   wrong tensor)
rollout            one mask from the product of all layers' attention (Abnar and Zuidema 2020)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data import VOID
from nearsight.evaluate.features import RANDOM_INITIALISATION, Tapped, resize_labels
from nearsight.evaluate.tasks.task import Bench, Method, Task, TaskNumber
from nearsight.measure.capture import evaluation_mode
from nearsight.measure.rows import capture_attention
from nearsight.models.layers import Grid
from nearsight.stats import weighted_mean

OPTIONS = {"mass": 0.9}
WITH_VOID = "no object, but wrong to cover"
NAMES = ("Jaccard", "Jaccard (compat)", "Jaccard, all heads", "rollout Jaccard")


def mass_mask(
    attention: Float[np.ndarray, "map patch"], mass: float
) -> Bool[np.ndarray, "map patch"]:
    """Return the fewest patches that together hold a share of the attention.

    >>> mass_mask(np.array([[0.5, 0.1, 0.35, 0.05]]), 0.8).tolist()
    [[True, False, True, False]]
    """
    order = np.argsort(-attention, 1, kind="stable")
    sorted_values = np.take_along_axis(attention, order, 1)
    before = np.cumsum(sorted_values, 1) - sorted_values
    kept = before < mass * sorted_values.sum(1, keepdims=True) - 1e-12
    found = np.zeros_like(kept)
    np.put_along_axis(found, order, kept, 1)
    return found


def best_jaccard(
    masks: Bool[np.ndarray, "map h w"], truth: Int[np.ndarray, "h w"], with_void: bool
) -> float:
    """Return the Jaccard index of the best mask for each object, averaged over the objects.

    It is NaN if the image has no object. ``with_void`` says whether a mask loses by covering pixels
    without a label.

    >>> truth = np.array([[0, 3, 255, 255]])
    >>> masks = np.array([[[False, True, True, False]]])
    >>> best_jaccard(masks, truth, with_void=False), best_jaccard(masks, truth, with_void=True)
    (1.0, 0.5)
    """
    counted = np.ones(truth.shape, bool) if with_void else truth != VOID
    objects = [x for x in np.unique(truth) if x not in (0, VOID)]
    found = []
    for label in objects:
        thing = (truth == label) & counted
        both = (masks & thing).sum((1, 2))
        either = ((masks & counted) | thing).sum((1, 2))
        found.append(float((both / either).max()))
    return float(np.mean(found)) if found else float("nan")


def rollout(maps: list[Float[Tensor, "image head query key"]]) -> Float[Tensor, "image query key"]:
    """Multiply the attention of all layers, each averaged with the identity.

    The identity stands for the residual connection around the layer.

    >>> layer = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]])
    >>> rollout([layer, layer])[0].tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    size = maps[0].shape[-1]
    found = torch.eye(size).expand(len(maps[0]), -1, -1)
    for each in maps:
        mixed = (each.mean(1).float().cpu() + torch.eye(size)) / 2
        found = mixed @ found
    return found


def class_row(
    weights: Float[Tensor, "image head query key"], grid: Grid
) -> Float[Tensor, "image head patch"]:
    """Return the class token's attention to every patch.

    Raises:
        UserError: If the layer has no class token beside all patches.
    """
    leading = weights.shape[-1] - grid.num_patches
    if leading < 1 or weights.shape[-1] != weights.shape[-2]:
        raise UserError("the layer has no class token beside its patches")
    return weights[:, :, 0, leading:]


@torch.no_grad()
def last_class_row(
    model: nn.Module, images: Tensor, grid: Grid
) -> Float[Tensor, "image head patch"]:
    """Return the class token's attention to every patch in the last layer of a model."""
    with evaluation_mode(model) as inner, capture_attention(inner) as maps:
        inner(images)
    return class_row(maps[-1], grid)


@torch.no_grad()
def class_rows(
    bench: Bench, images: Tensor
) -> tuple[Float[np.ndarray, "image head patch"], Float[np.ndarray, "image patch"], Grid]:
    """Return the class token's attention at the bench's layer, and by rollout up to it.

    Raises:
        UserError: If the model has no class token beside its patches in every layer.
    """
    assert bench.subject.model is not None
    assert isinstance(bench.subject.extractor, Tapped)
    with evaluation_mode(bench.subject.model) as inner, capture_attention(inner) as maps:
        inner(images)
    upto = maps[: bench.layer]
    grid = bench.subject.extractor.taps[bench.layer - 1].layout.grid
    try:
        rows = [class_row(weights, grid) for weights in upto]
    except UserError:
        raise UserError(
            f"{bench.subject.name} lacks a class token beside its patches in some layer, so its "
            "attention gives no masks; leave out the task class-attention"
        ) from None
    rolled = class_row(rollout(upto)[:, None], grid)[:, 0]
    return rows[-1].cpu().numpy(), rolled.numpy(), grid


def check_options(options: Mapping[str, Any]) -> None:
    """Check that the mass is a share.

    Raises:
        UserError: If it is not between 0 and 1.
    """
    if not 0 < options["mass"] < 1:
        raise UserError(f"mass is {options['mass']}, but it must be between 0 and 1")


def run_class_attention(bench: Bench) -> Iterator[TaskNumber]:
    """Yield the Jaccard indices, named in the docstring of this module."""
    mass = float(bench.options["mass"])
    records: list[list[float]] = []
    for images in bench.images(bench.val):
        heads, rolled, grid = class_rows(bench, images)
        for own, of_all in zip(heads, rolled):
            truth = bench.val.mask(len(records))
            own_masks, mean, whole = (
                _on_pixels(mass_mask(x, mass), grid, truth.shape)
                for x in (own, own.mean(0, keepdims=True), of_all[None])
            )
            records.append(
                [
                    best_jaccard(own_masks, truth, with_void=False),
                    best_jaccard(own_masks, truth, with_void=True),
                    best_jaccard(mean, truth, with_void=False),
                    best_jaccard(whole, truth, with_void=False),
                ]
            )
        if bench.progress:
            bench.progress(len(records), len(bench.val))
    found = np.array(records)
    there = np.isfinite(found).all(1)
    if not there.any():
        raise UserError(
            f"no scored image of {bench.val.data} shows an object other than background; use more "
            "images, or another data set"
        )
    settings = {
        **bench.settings(),
        "label_size": "of each mask",
        "objects": "classes of an image but the first, which is the background",
        "images_with_objects": int(there.sum()),
    }
    head = "the best head of each object, by the truth"
    chosen = (head, head, "nothing is chosen", "nothing is chosen")
    void = ("left out", WITH_VOID, "left out", "left out")
    for column, (name, how, rule) in enumerate(zip(NAMES, chosen, void)):
        stated = {**settings, "chosen_on": how, "void": rule}
        yield TaskNumber(name, found[there, column], weighted_mean, stated)


def _on_pixels(
    masks: Bool[np.ndarray, "map patch"], grid: Grid, size: tuple[int, ...]
) -> Bool[np.ndarray, "map h w"]:
    """Resize masks of patches to the size of an image by nearest neighbour."""
    height, width = size
    deep = masks.reshape(len(masks), grid.rows, grid.cols)
    return np.stack([resize_labels(each, (height, width)) for each in deep])


CLASS_ATTENTION = Task(
    "class-attention",
    "masks",
    run_class_attention,
    (Method("mass", options=OPTIONS, check=check_options),),
    controls=(RANDOM_INITIALISATION,),
    of_features=False,
    trains=False,
    passes=lambda bench: [(bench.val, 1)],
)
