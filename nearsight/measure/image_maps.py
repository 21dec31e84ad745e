"""Where one image's class token and chosen patches look, in one layer: maps to be drawn.

A map is a row of attention, put on the image: the mean over heads (or one head), the keys that are
patches, made to sum to one; ``on_patches`` says what share of the attention that was. In a layer
with windows a map covers the patch's window and is NaN elsewhere: it cannot look there. Pooled keys
give a coarser map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from nearsight.measure.capture import AttentionCall, AttentionCapture
from nearsight.measure.features import num_class_tokens
from nearsight.measure.layout import layout_of
from nearsight.measure.maps import num_leading, on_the_image
from nearsight.measure.observed import evaluating
from nearsight.measure.proof import prove, refuse_unseen
from nearsight.measure.tokens import Layout, Skipped
from nearsight.measure.unfold import Buffers, Unfolded
from nearsight.models.grid import Grid

Patch = tuple[int, int]  # row and column, counted from 0
DEFAULT_PLACES = (0.25, 0.5, 0.75)  # of height and width: upper left, middle, lower right


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
    """The maps of one image in one layer; layer and head are counted from 0."""

    layer: int
    num_layers: int
    layer_name: str
    head: int | None  # None: mean over heads
    num_heads: int
    grid: Grid
    num_windows: int
    patches: tuple[Patch, ...]
    of_class: AttentionMap | None  # the mean over them where a model has several class tokens
    of_patches: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class LayerAttention:
    """All attention of one image in one layer, [head, query, key] in the order of the image."""

    layer: int
    num_layers: int
    name: str
    layout: Layout
    weights: Float32[Tensor, "head query key"]
    num_class: int  # class tokens among the queries, the first ones


def attention_maps(
    model: nn.Module,
    image: Float[Tensor, "3 h w"],
    patches: Sequence[Patch] | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> AttentionMaps:
    """Where the class token and ``patches`` of ``image`` look in ``layer``, by default the last.

    ``image`` is as the model takes it. Patches are (row, column) of the layer's grid; by default
    those a quarter, half and three quarters down and to the right. ``head``: one head instead of
    the mean. All are counted from 0. The model is left as it was, and proved like every
    measurement.

    >>> from nearsight.models.registry import create_model
    >>> maps = attention_maps(create_model("mu"), torch.zeros(3, 32, 32), [(0, 5)])
    >>> maps.layer, maps.of_patches[0].weights.shape, maps.of_class.weights.shape
    (1, (8, 8), (8, 8))
    """
    return chosen_maps(layer_attention(model, image, layer), patches, head)


def layer_attention(
    model: nn.Module, image: Float[Tensor, "3 h w"], layer: int | None = None
) -> LayerAttention:
    """The attention of one image in one layer; no other layer is kept."""
    found: list[tuple[str, Layout, Tensor, int]] = []
    num_layers = 0

    def keep(call: AttentionCall) -> None:
        nonlocal num_layers
        layout = layout_of(call)
        if isinstance(layout, Skipped):
            return
        if layer is None or num_layers == layer:
            tensors = Unfolded(call, layout, Buffers())
            prove(call, tensors)
            weights = on_the_image(tensors, layout)[0].float().cpu()
            num_class = min(num_class_tokens(call.path[0].module), num_leading(layout.queries))
            found[:] = [(call.name, layout, weights, num_class)]
        num_layers += 1

    with evaluating(model) as inner, AttentionCapture(inner, keep) as capture:
        parameter = next((x for x in inner.parameters() if x.is_floating_point()), image)
        inner(image[None].to(parameter.device, parameter.dtype))
        refuse_unseen(capture.unseen)
    if not num_layers:
        raise ValueError(f"{type(inner).__name__} has no softmax attention between patches to draw")
    if not found:
        raise ValueError(
            f"expected a layer of 1 to {num_layers}, got {(layer or 0) + 1} (counted from 1)"
        )
    return LayerAttention(num_layers - 1 if layer is None else layer, num_layers, *found[0])


def chosen_maps(
    of: LayerAttention, patches: Sequence[Patch] | None = None, head: int | None = None
) -> AttentionMaps:
    """The maps of some patches, and of the class token where there is one."""
    grid, num_heads = of.layout.grid, len(of.weights)
    chosen = default_patches(grid) if patches is None else tuple(patches)
    for row, col in chosen:
        if not (0 <= row < grid.rows and 0 <= col < grid.cols):
            raise ValueError(
                f"expected patches in rows 1 to {grid.rows} and columns 1 to {grid.cols}, "
                f"got row {row + 1}, column {col + 1} (counted from 1)"
            )
    if head is not None and not 0 <= head < num_heads:
        raise ValueError(
            f"expected a head of 1 to {num_heads} of {of.name} or their mean, "
            f"got {head + 1} (counted from 1)"
        )
    rows = of.weights.mean(0) if head is None else of.weights[head]  # [query, key]
    first = num_leading(of.layout.queries)
    found = [(row * grid.cols + col) for row, col in chosen]
    return AttentionMaps(
        layer=of.layer, num_layers=of.num_layers, layer_name=of.name, head=head,
        num_heads=num_heads, grid=grid, num_windows=len(of.layout.queries), patches=chosen,
        of_class=_map(rows[: of.num_class].mean(0), of.layout) if of.num_class else None,
        of_patches=tuple(_map(rows[first + index], of.layout, index) for index in found),
    )  # fmt: skip


def default_patches(grid: Grid) -> tuple[Patch, ...]:
    """Patches on the way from the upper left to the lower right.

    >>> default_patches(Grid(8, 14))
    ((2, 3), (4, 7), (6, 10))
    """
    places = [(int(place * grid.rows), int(place * grid.cols)) for place in DEFAULT_PLACES]
    return tuple(dict.fromkeys(places))


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
        raise ValueError(
            "expected keys that lie on a grid, got keys that do not, so no map of them"
        )
    weights = row[-len(layout.cells) :].double()
    on_patches = float(weights.sum())
    if patch is not None and len(layout.queries) > 1:
        window = int((layout.queries == patch).nonzero()[0, 0])
        seen = layout.keys[window][layout.keys[window] >= 0]
        weights = torch.full_like(weights, torch.nan).index_copy(0, seen, weights[seen])
    return AttentionMap((weights / on_patches).reshape(size).numpy(), on_patches)
