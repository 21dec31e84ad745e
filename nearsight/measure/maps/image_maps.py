"""Where the class token and chosen patches look in one layer, in an image or over many.

A map is a row of attention, put on the image: the mean over images and heads (or one head), the
keys that are patches, made to sum to one; ``on_patches`` says what share of the attention that was.
In a layer with windows a map covers the patch's window and is NaN elsewhere: it cannot look there.
Pooled keys give a coarser map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluating,
    image_batches,
    refuse_unseen,
)
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.measure.metrics import num_class_tokens
from nearsight.measure.readouts import HeadShares, ShownShare, head_shares
from nearsight.measure.rows import Buffers, Unfolded, num_leading, on_the_image, prove
from nearsight.models.layers import Grid, as_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEWS = "nearsight.explore.profile_views"  # a room above, looked up when maps are drawn
Patch = tuple[int, int]  # row and column, counted from 0
DEFAULT_PLACES = (0.25, 0.5, 0.75)  # of height and width: upper left, middle, lower right
MIDDLE = (0.5,)


@dataclass(frozen=True)
class AttentionMap:
    """``weights`` [row, col] sum to one over the patches that can be seen, NaN at the others."""

    weights: np.ndarray
    on_patches: float  # share of the attention, before what is not on patches was dropped

    @property
    def times_uniform(self) -> np.ndarray:
        """1 where attention is what attention to all patches alike would give."""
        return self.weights * self.weights.size


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one layer, of one image or the mean over several; counted from 0."""

    layer: int
    num_layers: int
    layer_name: str
    head: int | None  # None: mean over heads
    num_heads: int
    share: ShownShare | None  # of the head, where a part of the layer has one to show
    num_images: int
    grid: Grid
    num_windows: int
    patches: tuple[Patch, ...]
    of_class: AttentionMap | None  # the mean over them where a model has several class tokens
    of_patches: tuple[AttentionMap, ...]

    def plot(self, image: np.ndarray | None = None) -> Figure:
        """Draw the maps side by side and return matplotlib's figure.

        The colour says how much more than uniform attention a patch gets. ``image`` is the picture
        below the maps, uint8 [height, width, 3]; without one its place is grey.
        """
        return import_module(VIEWS).maps_figure(self, image)


@dataclass(frozen=True)
class LayerAttention:
    """The attention of one layer, mean over images, [head, query, key] in the image's order."""

    layer: int
    num_layers: int
    name: str
    layout: Layout
    weights: Float32[Tensor, "head query key"]
    num_class: int  # class tokens among the queries, the first ones
    shares: HeadShares | None = None  # of its heads, where a part of the layer has some to show
    num_images: int = 1


def attention_maps(
    model: nn.Module,
    image: Float[Tensor, "*image 3 h w"],
    patches: Sequence[Patch] | None = None,
    layer: int | None = None,
    head: int | None = None,
    grid: Grid | Sequence[int] | None = None,
    num_prefix: int | None = None,
) -> AttentionMaps:
    """Where the class token and ``patches`` of ``image`` look in ``layer``, by default the last.

    ``image`` is as the model takes it; of several the mean is taken. Patches are (row, column) of
    the layer's grid; by default those a quarter, half and three quarters down and to the right.
    ``head``: one head instead of the mean. All are counted from 0. ``grid`` and ``num_prefix`` are
    found unless given. The model is left as it was, and
    proved like every measurement.

    >>> from nearsight.models.load.registry import create_model
    >>> maps = attention_maps(create_model("mu"), torch.zeros(3, 32, 32), [(0, 5)])
    >>> maps.layer, maps.of_patches[0].weights.shape, maps.of_class.weights.shape
    (1, (8, 8), (8, 8))
    """
    images = image[None] if image.ndim == 3 else image
    given = as_grid(grid), num_prefix
    return chosen_maps(layer_attention(model, images, layer, *given), patches, head)


def layer_attention(
    model: nn.Module,
    images: Tensor | Iterable[Any],
    layer: int | None = None,
    grid: Grid | None = None,
    num_prefix: int | None = None,
) -> LayerAttention:
    """The attention of one layer, the mean over ``images`` (as ``measure_model`` takes them).

    No other layer is kept.
    """
    found: list[tuple[AttentionCall, Layout, Tensor]] = []  # of the present forward
    total: Tensor | None = None
    num_layers = num_images = 0

    def keep(call: AttentionCall) -> None:
        nonlocal num_layers
        layout = layout_of(call, grid, num_prefix)
        if isinstance(layout, Skipped):
            return
        if layer is None or num_layers == layer:
            tensors = Unfolded(call, layout, Buffers())
            prove(call, tensors)
            found[:] = [(call, layout, on_the_image(tensors, layout).double().sum(0).cpu())]
        num_layers += 1

    with evaluating(model) as inner, AttentionCapture(inner, keep) as capture:
        for batch in image_batches(images, inner):
            num_layers = 0
            inner(batch)
            refuse_unseen(capture.unseen)
            if not num_layers:
                name = type(inner).__name__
                raise UserError(f"{name} has no softmax attention between patches to draw")
            if not found:
                raise UserError(
                    f"expected a layer of 1 to {num_layers}, got {(layer or 0) + 1} "
                    "(counted from 1)"
                )
            total = found[0][2] if total is None else total + found[0][2]
            num_images += len(batch)
    if total is None:
        raise UserError("expected at least one image, got none")
    call, layout, _ = found[0]
    return LayerAttention(
        layer=num_layers - 1 if layer is None else layer, num_layers=num_layers, name=call.name,
        layout=layout, weights=(total / num_images).float(),
        num_class=min(num_class_tokens(call.path[0].module), num_leading(layout.queries)),
        shares=head_shares(call), num_images=num_images,
    )  # fmt: skip


def chosen_maps(
    of: LayerAttention, patches: Sequence[Patch] | None = None, head: int | None = None
) -> AttentionMaps:
    """The maps of some patches, and of the class token where there is one."""
    grid, num_heads = of.layout.grid, len(of.weights)
    chosen = default_patches(grid) if patches is None else tuple(patches)
    for row, col in chosen:
        if not (0 <= row < grid.rows and 0 <= col < grid.cols):
            raise UserError(
                f"expected patches in rows 1 to {grid.rows} and columns 1 to {grid.cols}, "
                f"got row {row + 1}, column {col + 1} (counted from 1)"
            )
    if head is not None and not 0 <= head < num_heads:
        raise UserError(
            f"expected a head of 1 to {num_heads} of {of.name} or their mean, "
            f"got {head + 1} (counted from 1)"
        )
    rows = of.weights.mean(0) if head is None else of.weights[head]  # [query, key]
    first = num_leading(of.layout.queries)
    found = [(row * grid.cols + col) for row, col in chosen]
    return AttentionMaps(
        layer=of.layer, num_layers=of.num_layers, layer_name=of.name, head=head,
        num_heads=num_heads, share=of.shares.of_head(head) if of.shares else None,
        num_images=of.num_images, grid=grid, num_windows=len(of.layout.queries), patches=chosen,
        of_class=_map(rows[: of.num_class].mean(0), of.layout) if of.num_class else None,
        of_patches=tuple(_map(rows[first + index], of.layout, index) for index in found),
    )  # fmt: skip


def default_patches(grid: Grid, places: Sequence[float] = DEFAULT_PLACES) -> tuple[Patch, ...]:
    """Patches on the way from the upper left to the lower right.

    >>> default_patches(Grid(8, 14))
    ((2, 3), (4, 7), (6, 10))
    """
    return tuple(dict.fromkeys((int(x * grid.rows), int(x * grid.cols)) for x in places))


def same_places(patches: Sequence[Patch], grid: Grid, other: Grid) -> tuple[Patch, ...]:
    """The patches of another grid at the centres of these.

    >>> same_places([(0, 1), (3, 3)], Grid(4, 4), Grid(8, 2))
    ((1, 0), (7, 1))
    """
    return tuple(
        (int((row + 0.5) * other.rows / grid.rows), int((col + 0.5) * other.cols / grid.cols))
        for row, col in patches
    )


def _map(row: Float[Tensor, " key"], layout: Layout, patch: int | None = None) -> AttentionMap:
    """A row of attention as a map of the image; ``patch`` is the one that looks."""
    size = [len(layout.cells[:, axis].unique()) for axis in (0, 1)]
    if size[0] * size[1] != len(layout.cells):
        raise UserError("expected keys that lie on a grid, got keys that do not, so no map of them")
    weights = row[-len(layout.cells) :].double()
    on_patches = float(weights.sum())
    if patch is not None and len(layout.queries) > 1:
        window = int((layout.queries == patch).nonzero()[0, 0])
        seen = layout.keys[window][layout.keys[window] >= 0]
        weights = torch.full_like(weights, torch.nan).index_copy(0, seen, weights[seen])
    return AttentionMap((weights / on_patches).reshape(size).numpy(), on_patches)
