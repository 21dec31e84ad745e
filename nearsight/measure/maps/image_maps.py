"""Compute where the class token and chosen patches attend in one layer.

A map is one row of attention, arranged as the patches are on the image. It is the mean over images
and heads (or one head), restricted to patches and renormalised to sum to one. ``on_patches`` is the
share of attention that patches had before. In a layer with windows, a map covers the window of the
patch and is NaN elsewhere, where the patch cannot attend. Pooled keys give a coarser map.
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
    evaluation_mode,
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

VIEWS = "nearsight.explore.profile_views"  # in a room above, so imported when maps are drawn
Patch = tuple[int, int]  # row and column, counted from 0
DEFAULT_PLACES = (0.25, 0.5, 0.75)  # shares of height and width: upper left, middle, lower right
MIDDLE = (0.5,)  # the place of the default patch if every head is shown


@dataclass(frozen=True)
class AttentionMap:
    """One attention map.

    Attributes:
        weights: [row, col]. They sum to one over the patches that can be attended to, and are NaN
            at the others.
        on_patches: Share of the row's attention that was on patches before it was renormalised.
    """

    weights: np.ndarray
    on_patches: float

    @property
    def times_uniform(self) -> np.ndarray:
        """The weights relative to uniform attention, which is 1 everywhere."""
        return self.weights * self.weights.size


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one layer, for one image or averaged over several.

    Layers, heads and patches are counted from 0.
    """

    layer: int
    num_layers: int
    layer_name: str
    head: int | None  # None: mean over heads
    num_heads: int
    share: ShownShare | None  # the share that a part of the layer shows, such as a gate of GPSA
    num_images: int
    grid: Grid
    num_windows: int
    patches: tuple[Patch, ...]
    of_class: AttentionMap | None  # averaged over class tokens if the model has several
    of_patches: tuple[AttentionMap, ...]

    def __repr__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head + 1}"
        images = "1 image" if self.num_images == 1 else f"{self.num_images} images"
        shown = "[CLS] and " if self.of_class else ""
        places = ", ".join(f"({row}, {col})" for row, col in self.patches)
        return (
            f"AttentionMaps of layer {self.layer + 1} of {self.num_layers} ({self.layer_name}), "
            f"{head}, {images}, {self.grid} patches: {shown}patches {places}; "
            "plot(), of_class, of_patches"
        )

    def plot(self, image: np.ndarray | None = None) -> Figure:
        """Draw the maps side by side and return matplotlib's figure.

        The colour shows the attention to a patch as a multiple of uniform attention.

        Args:
            image: The picture to draw below the maps, uint8 [height, width, 3]; by default a grey
                area.
        """
        return import_module(VIEWS).maps_figure(self, image)


@dataclass(frozen=True)
class LayerAttention:
    """The attention of one layer, averaged over images, with tokens in the order of the image."""

    layer: int
    num_layers: int
    name: str
    layout: Layout
    weights: Float32[Tensor, "head query key"]
    num_class: int  # number of class tokens, which are the first queries
    shares: HeadShares | None = None  # shares that a part shows, such as the gates of GPSA
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
    """Return where the class token and some patches attend in one layer.

    The model's state is restored afterwards, and the weights are checked against the layer's
    output.

    Args:
        model: Any model that ``measure_model`` takes.
        image: One image as the model takes it, or several, over which attention is averaged.
        patches: (row, column) of patches in the layer's grid, counted from 0; by default those a
            quarter, half and three quarters of the way from the upper left to the lower right.
        layer: Number of the layer, counted from 0; by default the last.
        head: Number of a head, counted from 0; by default the mean over heads.
        grid: Rows and columns of patches; found automatically by default.
        num_prefix: Number of class and register tokens; found automatically by default.

    Returns:
        The maps, which ``plot`` draws.

    Raises:
        UserError: If the layer cannot be measured, or there is no such layer, head or patch.

    >>> from nearsight.models.load.registry import create_model
    >>> maps = attention_maps(create_model("mu"), torch.zeros(3, 32, 32), [(0, 5)])
    >>> maps.layer, maps.of_patches[0].weights.shape, maps.of_class.weights.shape
    (1, (8, 8), (8, 8))
    """
    images = image[None] if image.ndim == 3 else image
    places = as_grid(grid), num_prefix
    return chosen_maps(layer_attention(model, images, layer, *places), patches, head)


def layer_attention(
    model: nn.Module,
    images: Tensor | Iterable[Any],
    layer: int | None = None,
    grid: Grid | None = None,
    num_prefix: int | None = None,
) -> LayerAttention:
    """Return the attention of one layer, averaged over images. No other layer is stored.

    Args:
        model: Any model that ``measure_model`` takes.
        images: Images as ``measure_model`` takes them.
        layer: Number of the layer, counted from 0; by default the last.
        grid: Rows and columns of patches; found automatically by default.
        num_prefix: Number of class and register tokens; found automatically by default.

    Raises:
        UserError: If the layer cannot be measured or does not exist, or there are no images.
    """
    kept: list[tuple[AttentionCall, Layout, Tensor]] = []  # the layer in the current forward
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
            kept[:] = [(call, layout, on_the_image(tensors, layout).double().sum(0).cpu())]
        num_layers += 1

    with evaluation_mode(model) as inner, AttentionCapture(inner, keep) as capture:
        for batch in image_batches(images, inner):
            num_layers = 0
            inner(batch)
            refuse_unseen(capture.unseen)
            if not num_layers:
                name = type(inner).__name__
                raise UserError(
                    f"{name} has no softmax attention between patches, so there are no maps to "
                    "draw; choose a Vision Transformer"
                )
            if not kept:
                raise UserError(
                    f"there is no layer {(layer or 0) + 1}; {type(inner).__name__} has layers "
                    f"1 to {num_layers}"
                )
            total = kept[0][2] if total is None else total + kept[0][2]
            num_images += len(batch)
    if total is None:
        raise UserError("there are no images; pass at least one")
    call, layout, _ = kept[0]
    return LayerAttention(
        layer=num_layers - 1 if layer is None else layer, num_layers=num_layers, name=call.name,
        layout=layout, weights=(total / num_images).float(),
        num_class=min(num_class_tokens(call.path[0].module), num_leading(layout.queries)),
        shares=head_shares(call), num_images=num_images,
    )  # fmt: skip


def chosen_maps(
    of: LayerAttention, patches: Sequence[Patch] | None = None, head: int | None = None
) -> AttentionMaps:
    """Return the maps of some patches, and of the class token if there is one.

    Args:
        of: The attention of the layer.
        patches: (row, column) of the patches, counted from 0; by default three of them.
        head: Number of the head, counted from 0; by default the mean over heads.

    Raises:
        UserError: If there is no such patch or head.
    """
    grid, num_heads = of.layout.grid, len(of.weights)
    chosen = default_patches(grid) if patches is None else tuple(patches)
    for row, col in chosen:
        if not (0 <= row < grid.rows and 0 <= col < grid.cols):
            raise UserError(
                f"there is no patch in row {row + 1}, column {col + 1}; the grid has rows 1 to "
                f"{grid.rows} and columns 1 to {grid.cols}"
            )
    if head is not None and not 0 <= head < num_heads:
        raise UserError(f"there is no head {head + 1}; layer {of.name} has heads 1 to {num_heads}")
    rows = of.weights.mean(0) if head is None else of.weights[head]  # [query, key]
    first = num_leading(of.layout.queries)
    indices = [(row * grid.cols + col) for row, col in chosen]
    return AttentionMaps(
        layer=of.layer, num_layers=of.num_layers, layer_name=of.name, head=head,
        num_heads=num_heads, share=of.shares.of_head(head) if of.shares else None,
        num_images=of.num_images, grid=grid, num_windows=len(of.layout.queries), patches=chosen,
        of_class=_map(rows[: of.num_class].mean(0), of.layout) if of.num_class else None,
        of_patches=tuple(_map(rows[first + index], of.layout, index) for index in indices),
    )  # fmt: skip


def default_patches(grid: Grid, places: Sequence[float] = DEFAULT_PLACES) -> tuple[Patch, ...]:
    """Return patches on the line from the upper left to the lower right of a grid.

    Args:
        grid: The grid.
        places: Where on this line, as shares of height and width.

    >>> default_patches(Grid(8, 14))
    ((2, 3), (4, 7), (6, 10))
    """
    return tuple(dict.fromkeys((int(x * grid.rows), int(x * grid.cols)) for x in places))


def same_places(patches: Sequence[Patch], grid: Grid, other: Grid) -> tuple[Patch, ...]:
    """Return the patches of another grid that cover the centres of these patches.

    Args:
        patches: Patches of ``grid``.
        grid: Their grid.
        other: The other grid.

    >>> same_places([(0, 1), (3, 3)], Grid(4, 4), Grid(8, 2))
    ((1, 0), (7, 1))
    """
    return tuple(
        (int((row + 0.5) * other.rows / grid.rows), int((col + 0.5) * other.cols / grid.cols))
        for row, col in patches
    )


def _map(row: Float[Tensor, " key"], layout: Layout, patch: int | None = None) -> AttentionMap:
    """Return a row of attention as a map.

    Args:
        row: The row, over prefix tokens and all cells.
        layout: Where the tokens of the layer are.
        patch: The patch whose row it is; None for class tokens.
    """
    size = [len(layout.cells[:, axis].unique()) for axis in (0, 1)]
    if size[0] * size[1] != len(layout.cells):
        raise UserError(
            "the keys of this layer do not form a grid, so they cannot be shown as a map; choose "
            "another layer"
        )
    weights = row[-len(layout.cells) :].double()
    on_patches = float(weights.sum())
    if patch is not None and len(layout.queries) > 1:
        window = int((layout.queries == patch).nonzero()[0, 0])
        seen = layout.keys[window][layout.keys[window] >= 0]
        weights = torch.full_like(weights, torch.nan).index_copy(0, seen, weights[seen])
    return AttentionMap((weights / on_patches).reshape(size).numpy(), on_patches)
