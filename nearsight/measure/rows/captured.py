"""Attention maps of a few images, put back on the image, from any model.

``capture_attention`` is for looking; measuring many images is ``measure_model``'s business.
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
    """The attention of the last forward inside the block: one [batch, head, query, key] per layer.

    Tokens are in the order of the image: prefix tokens, then the patches row by row. Windows are
    put back on the whole grid, with zeros where a patch cannot look; pooled keys stay pooled. The
    model runs as it is, in whatever mode it is in; proved like every measurement.

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
            f"expected a forward of {type(inner).__name__} with attention between patches inside "
            "the block, saw none"
        )


def on_the_image(tensors: Unfolded, layout: Layout) -> Tensor:
    """Weights [batch, head, query, key] over prefix tokens and the whole image."""
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
    """Prefix tokens: leading tokens without a place, where there is one window."""
    return 0 if len(tokens) > 1 else int((tokens[0] >= 0).int().argmax())


def _scattered(layout: Layout, num_prefix: tuple[int, int]) -> bool:
    """Whether the tokens after the prefix are in another order than the image's."""
    queries, keys = layout.queries[0, num_prefix[0] :], layout.keys[0, num_prefix[1] :]
    return not (
        torch.equal(queries, torch.arange(layout.grid.num_patches))
        and torch.equal(keys, torch.arange(len(layout.cells)))
    )
