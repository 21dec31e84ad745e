"""Locate tokens in models that attend within windows of a feature map.

A map of patch numbers goes through the same steps as the model's features: it is rolled, padded
(with -1) and cut into windows. What is then in a window are the numbers of its patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor

from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout.tokens import Layout, refuse
from nearsight.models.layers import Grid

Pair = Sequence[int]


def indices(grid: Grid) -> Int64[Tensor, "row col"]:
    """Return a map of patch numbers, counted row by row."""
    return torch.arange(grid.num_patches).view(grid.rows, grid.cols)


def pad_to_windows(tokens: Int64[Tensor, "row col"], window: Pair) -> Int64[Tensor, "row2 col2"]:
    """Pad a map with -1 at the bottom and on the right until windows cover it exactly."""
    below, right = (-size % side for size, side in zip(tokens.shape, window))
    return F.pad(tokens, (0, right, 0, below), value=-1)


def blocks(tokens: Int64[Tensor, "row col"], window: Pair) -> Int64[Tensor, "window token"]:
    """Cut a map into windows of neighbouring patches, each a rectangle of this size.

    >>> blocks(torch.arange(12).view(2, 6), (2, 3))
    tensor([[ 0,  1,  2,  6,  7,  8],
            [ 3,  4,  5,  9, 10, 11]])
    """
    rows, cols = window
    cut = tokens.unflatten(1, (-1, cols)).unflatten(0, (-1, rows))  # [down, row, right, col]
    return cut.transpose(1, 2).reshape(-1, rows * cols)


def strides(tokens: Int64[Tensor, "row col"], size: Pair) -> Int64[Tensor, "window token"]:
    """Cut a map into windows of distant patches, each a coarse grid of this size over the map.

    >>> strides(torch.arange(12).view(2, 6), (2, 3))
    tensor([[ 0,  2,  4,  6,  8, 10],
            [ 1,  3,  5,  7,  9, 11]])
    """
    rows, cols = size
    cut = tokens.unflatten(1, (cols, -1)).unflatten(0, (rows, -1))  # [row, down, col, right]
    return cut.permute(1, 3, 0, 2).reshape(-1, rows * cols)


def window_layout(grid: Grid, tokens: Int64[Tensor, "window token"]) -> Layout:
    """Return the layout of attention within each window of a map."""
    return Layout(grid, tokens, tokens, grid.coordinates())


def timm_swin(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in timm's Swin, V2 and V2-CR: the map is rolled, then padded."""
    grid = Grid(*place.inputs[0].shape[1:3])
    block: Any = place.module
    rolled = indices(grid).roll([-shift for shift in block.shift_size], (0, 1))
    return window_layout(grid, blocks(pad_to_windows(rolled, block.window_size), block.window_size))


def torchvision_swin(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in torchvision's Swin and V2: the map is padded, then rolled.

    Along a side that a single window covers, it is not rolled.
    """
    grid = Grid(*place.inputs[0].shape[1:3])
    attention: Any = place.module
    window = attention.window_size
    tokens = pad_to_windows(indices(grid), window)
    shift = [
        -shift if side < size else 0
        for shift, side, size in zip(attention.shift_size, window, tokens.shape)
    ]
    return window_layout(grid, blocks(tokens.roll(shift, (0, 1)), window))


def maxvit_channels_last(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in MaxViT's partitions of a map [b, row, col, c], one or both in a block."""
    grid = Grid(*place.inputs[0].shape[1:3])
    return _maxvit(call, place, grid)


def maxvit_channels_first(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in MaxViT's partitions of a map [b, c, row, col]."""
    grid = Grid(*place.inputs[0].shape[2:4])
    return _maxvit(call, place, grid)


def _maxvit(call: AttentionCall, place: Place, grid: Grid) -> Layout:
    """Locate tokens in one of MaxViT's two partitions: neighbouring patches, or distant ones."""
    block: Any = place.module
    in_blocks = getattr(block, "partition_block", None)
    if in_blocks is None:
        in_blocks = any(x.module is block.attn_block for x in call.path)
    cut = blocks if in_blocks else strides
    return window_layout(grid, cut(indices(grid), block.partition_size))


def hiera(call: AttentionCall, place: Place) -> Layout:
    """Locate tokens in Hiera, whose windows are mask units.

    Hiera orders tokens so that those that will be pooled together are far apart in the sequence. A
    query pooled from 2x2 keys is at their centre; each of its keys is a quarter of the query's side
    away from it, along both axes.
    """
    model: Any = next((x.module for x in call.path if hasattr(x.module, "unroll")), None)
    if model is None:
        refuse(call, "a block of Hiera alone does not tell where its tokens are; measure the whole "
                     "model")  # fmt: skip
    attention: Any = place.module
    schedule = [tuple(step) for step in model.unroll.schedule]
    size = list(model.unroll.size)
    num_tokens = place.inputs[0].shape[1]
    while schedule and math.prod(size) > num_tokens:
        size = [n // step for n, step in zip(size, schedule.pop(0))]
    if len(size) != 2 or math.prod(size) != num_tokens:
        refuse(call, f"its {num_tokens} tokens are not the patches of one whole image; give the "
                     "model images, not videos, and mask no patches")  # fmt: skip
    key_grid, pooled = Grid(*size), attention.q_stride > 1
    keys = _unroll(key_grid, schedule)
    step = schedule[0] if pooled else (1, 1)
    grid = Grid(size[0] // step[0], size[1] // step[1])
    queries = _unroll(grid, schedule[1:] if pooled else schedule)
    coarse = torch.tensor(step, dtype=torch.float64)
    cells = (key_grid.coordinates() - (coarse - 1) / 2) / coarse
    if not attention.use_mask_unit_attn:
        return Layout(grid, queries[None], keys[None], cells)
    num_windows = num_tokens // (attention.q_stride * attention.window_size)
    queries, keys = (x.view(-1, num_windows).T for x in (queries, keys))
    return Layout(grid, queries, keys, cells, windows="inner")


def _unroll(grid: Grid, schedule: list[tuple[int, ...]]) -> Int64[Tensor, " token"]:
    """Return patch numbers in Hiera's order: the position within a pooled cell varies slowest."""
    tokens = indices(grid)
    for level, (down, right) in enumerate(schedule):
        inside = 2 * level  # number of axes before the map, for positions within cells so far
        tokens = tokens.unflatten(inside + 1, (-1, right)).unflatten(inside, (-1, down))
        axes = [*range(inside), inside + 1, inside + 3, inside, inside + 2]
        tokens = tokens.permute(axes)
    return tokens.reshape(-1)
