"""Compute the term that a locality adds to the logits of a layer whose tokens have known positions.

Nothing is added in rows and columns of tokens without a position (prefix tokens, padding), except
that ``identity`` hides prefix tokens from patches. If a locality would hide every patch from a
patch, the row of that patch stays unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.layout import Fold, Layout
from nearsight.measure.localise.kinds import IDENTITY, Locality

TOLERANCE = 1e-6  # in patches; coordinates of pooled cells are multiples of 1/2 or 1/3
Bias = Float[Tensor, "window query key"]
Placed = Bool[Tensor, "window query key"]


def placed_pairs(layout: Layout) -> Placed:
    """Return which pairs of a query and a key both have a position on the image."""
    return (layout.queries >= 0)[:, :, None] & (layout.keys >= 0)[:, None, :]


def offsets(layout: Layout, shifted: bool = False) -> Float[Tensor, "window query key 2"]:
    """Return rows and columns from every query to every key in patches, in float64.

    Args:
        layout: Where the tokens are.
        shifted: Whether to take, instead of each query, the patch half a grid down and half a grid
            to the right of it. Beyond its edge, the grid continues at the opposite side.

    Raises:
        UserError: If the queries cannot be shifted, because the layer attends in windows.
    """
    points = layout.grid.coordinates()
    if shifted:
        if len(layout.queries) > 1 or len(layout.cells) != layout.grid.num_patches:
            raise UserError(
                "shifted needs attention between all patches, but this layer has windows or "
                "pooled keys; choose other layers"
            )
        size = torch.tensor([layout.grid.rows, layout.grid.cols])
        points = (points + size // 2) % size
    return (
        layout.cells[layout.keys.clamp(min=0)][:, None]
        - points[layout.queries.clamp(min=0)][:, :, None]
    )


def locality_bias(locality: Locality, layout: Layout) -> Bias:
    """Return the term for the logits of a layer, in float64; 0 where nothing is added.

    >>> from nearsight.measure.layout.tokens import row_by_row
    >>> from nearsight.models.layers import Grid
    >>> locality_bias(Locality("gaussian", 1.0), row_by_row(Grid(1, 3), num_prefix=1))[0, 1]
    tensor([ 0.0000, -0.0000, -0.5000, -2.0000], dtype=torch.float64)
    """
    pairs = placed_pairs(layout)
    if locality.kind in ("gaussian", "shifted"):
        far = offsets(layout, locality.kind == "shifted").square().sum(-1)
        return (far / (-2 * locality.value**2)).masked_fill(~pairs, 0.0)
    if locality.kind == "sinks":
        return torch.zeros(pairs.shape, dtype=torch.float64)
    apart = offsets(layout).abs().amax(-1)  # Chebyshev
    if locality.kind == IDENTITY:
        allowed = (apart <= TOLERANCE) & pairs
        hidden = (layout.queries >= 0)[:, :, None] & ~allowed
    else:
        near = apart <= locality.value // 2 + TOLERANCE
        allowed = (near if locality.kind == "window" else ~near) & pairs
        hidden = pairs & ~allowed
    nowhere = ~allowed.any(-1, keepdim=True)
    empty = torch.zeros(pairs.shape, dtype=torch.float64)
    return empty.masked_fill(hidden & ~nowhere, -torch.inf)


class LayerLocality(nn.Module):
    """The term added to the logits of one layer: the child module ``locality`` of its attention.

    It has only buffers, which are not part of the state dict. Because of its ``repr``, a printed
    model shows that it was made local.

    Args:
        locality: What to do to the logits.
        layout: Where the tokens of the layer are on the image.
        like: A tensor in the precision and on the device of the model.
    """

    bias: Tensor  # [window or 1, query, key]
    pairs: Tensor  # of the same shape: whether query and key have a position

    def __init__(self, locality: Locality, layout: Layout, like: Tensor) -> None:
        super().__init__()
        self.locality = locality
        self.grid = layout.grid
        self.windows = _fold_of(layout)
        if locality.kind == "sinks" and not torch.equal(layout.queries, layout.keys):
            raise UserError(
                "sinks can be hidden only in layers whose queries and keys are the same tokens; "
                "choose other layers"
            )
        bias, pairs = _alike(locality_bias(locality, layout), placed_pairs(layout))
        self.register_buffer("bias", bias.to(like.device, like.dtype), persistent=False)
        self.register_buffer("pairs", pairs.to(like.device), persistent=False)

    @property
    def needs_logits(self) -> bool:
        """Whether the term depends on the logits themselves."""
        return self.locality.keep_share or self.locality.kind == "sinks"

    def extra_repr(self) -> str:
        """Return the text inside the brackets of the module's ``repr``."""
        return f"{self.locality}, grid {self.grid}"

    def fits(self, num_queries: int, num_keys: int) -> bool:
        """Return whether attention of this size is what the term was made for."""
        return (num_queries, num_keys) == tuple(self.bias.shape[-2:])

    def folded_term(self, leading: Sequence[Any], logits: Tensor | None = None) -> Tensor:
        """Return the term in a shape that can be added to logits [*leading, query, key].

        Args:
            leading: Sizes of the leading dimensions, into which the model folds images, windows
                and heads.
            logits: The logits; required if ``needs_logits``.
        """
        windows, sizes = self.windows, tuple(leading)
        if len(sizes) < len(windows.dims):  # heads are folded into the batch, or there is one head
            windows = Fold(windows.dims[: len(sizes)])
        return self._term(windows.fold(self.bias, sizes), windows.fold(self.pairs, sizes), logits)

    def unfolded_term(self, logits: Tensor) -> Tensor:
        """Return the term for logits [image, window, head, query, key]."""
        return self._term(self.bias[:, None], self.pairs[:, None], logits)

    def _term(self, bias: Tensor, pairs: Tensor, logits: Tensor | None) -> Tensor:
        """Return the term, given the bias and the pairs in the shape of the logits."""
        if logits is None or not self.needs_logits:
            return bias
        bias = bias.to(logits.dtype)
        if self.locality.kind == "sinks":
            bias = self._sinks(logits, pairs)
        if self.locality.keep_share:
            lowest = torch.finfo(logits.dtype).min
            before, after = (
                x.masked_fill(~pairs, -torch.inf).logsumexp(-1, keepdim=True).clamp(min=lowest)
                for x in (logits, logits + bias)
            )
            bias = torch.where(pairs, bias + (before - after), bias)
        return bias

    def _sinks(self, logits: Tensor, pairs: Tensor) -> Tensor:
        """Return -inf for keys that are sinks in this image and head, except for the own patch."""
        among = logits.masked_fill(~pairs, -torch.inf)
        weights = (among - among.logsumexp(-1, keepdim=True)).exp().nan_to_num(0.0)
        own = torch.eye(*weights.shape[-2:], dtype=torch.bool, device=weights.device)
        others = weights.masked_fill(own, 0.0)
        sink = others.sum(-2, keepdim=True) > self.locality.value  # an even spread sums to 1
        return torch.zeros_like(logits).masked_fill(sink & ~own & pairs, -torch.inf)


def _fold_of(layout: Layout) -> Fold:
    """Return how the layer folds its windows; the number of heads is given as 1."""
    if isinstance(layout.windows, Fold):
        return layout.windows
    num_windows = len(layout.queries)
    if layout.windows == "inner":
        return Fold(((("image", 1),), (("head", 1),), (("window", num_windows),)))
    return Fold(((("image", 1), ("window", num_windows)), (("head", 1),)))


def _alike(bias: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Keep only one window if all windows are alike."""
    if bool((bias == bias[:1]).all()) and bool((pairs == pairs[:1]).all()):
        return bias[:1], pairs[:1]
    return bias, pairs
