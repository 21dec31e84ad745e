"""Capture the attention maps of a few images from any model, with tokens in the order of the image.

``capture_attention`` keeps every map in memory. For many images use ``measure_model``, which stores
no map.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    eager,
    inner_model,
    refuse_scripted,
    refuse_unseen,
)
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.measure.rows.proof import prove
from nearsight.measure.rows.unfold import Buffers, RowBlock, Unfolded
from nearsight.models.layers import Grid


@contextlib.contextmanager
def capture_attention(
    model: nn.Module, grid: Grid | None = None, num_prefix: int | None = None
) -> Iterator[list[Tensor]]:
    """Yield a list that every forward inside the ``with`` block fills with its attention maps.

    The list has one tensor [batch, head, query, key] per layer, and holds the maps of the last
    forward only. Tokens are in the order of the image: prefix tokens first, then the patches row by
    row. Windows are placed on the whole grid, with zeros where a patch cannot attend. Pooled keys
    stay pooled. The model runs in the mode it is in (training or evaluation). The weights are
    checked against the layer's real output.

    Args:
        model: The model to watch; run it inside the block.
        grid: Rows and columns of patches, for models whose grid cannot be found automatically.
        num_prefix: Number of class and register tokens, for models where it cannot be found
            automatically.

    Raises:
        UserError: If a layer cannot be measured, or if no forward with attention between patches
            ran inside the block.

    >>> from nearsight.models.load.registry import create_model
    >>> model = create_model("mu").eval()
    >>> with capture_attention(model) as maps:
    ...     logits = model(torch.zeros(3, 3, 32, 32))
    >>> len(maps), tuple(maps[0].shape)
    (2, (3, 2, 65, 65))
    """
    maps: list[Tensor] = []
    inner = inner_model(model)
    refuse_scripted(inner)

    def keep(call: AttentionCall) -> None:
        if len(capture.callers) == 1:
            maps.clear()
        layout = layout_of(call, grid, num_prefix)
        if not isinstance(layout, Skipped):
            tensors = Unfolded(call, layout, Buffers())
            prove(call, tensors)
            maps.append(on_the_image(tensors, layout))

    with eager(), AttentionCapture(inner, keep) as capture:
        yield maps
    refuse_unseen(capture.unseen)
    if not maps:
        raise UserError(
            f"no attention between patches was captured from {type(inner).__name__}; run the model "
            "inside the `with capture_attention(model)` block"
        )


def on_the_image(tensors: Unfolded, layout: Layout) -> Tensor:
    """Return weights [batch, head, query, key] over the prefix tokens and all patches of the image.

    Args:
        tensors: The tensors of the attention call.
        layout: Where the tokens of the call are on the image.
    """
    everything = RowBlock(slice(None), slice(None), slice(None))
    weights = tensors.weights(everything)  # [image, window, head, query, key]
    images, num_windows, heads = weights.shape[:3]
    num_prefix = num_leading(layout.queries), num_leading(layout.keys)
    if num_windows == 1 and not _scattered(layout, num_prefix):
        return weights[:, 0]
    sizes = num_prefix[0] + layout.grid.num_patches, num_prefix[1] + len(layout.cells)
    whole = weights.new_zeros(images, heads, *sizes)
    for window in range(num_windows):
        rows, cols = layout.queries[window], layout.keys[window]
        kept_rows, kept_cols = (x.ge(0).nonzero().flatten() for x in (rows, cols))
        part = weights[:, window][:, :, kept_rows][..., kept_cols]
        at = (rows[kept_rows] + num_prefix[0])[:, None], (cols[kept_cols] + num_prefix[1])[None]
        whole[:, :, at[0], at[1]] = part
    return whole


def num_leading(tokens: Tensor) -> int:
    """Return the number of prefix tokens: leading tokens without a position.

    With several windows it is 0, because tokens without a position are then padding.
    """
    return 0 if len(tokens) > 1 else int((tokens[0] >= 0).int().argmax())


def _scattered(layout: Layout, num_prefix: tuple[int, int]) -> bool:
    """Return whether the patches are not in the order of the image, row by row."""
    queries, keys = layout.queries[0, num_prefix[0] :], layout.keys[0, num_prefix[1] :]
    return not (
        torch.equal(queries, torch.arange(layout.grid.num_patches))
        and torch.equal(keys, torch.arange(len(layout.cells)))
    )
