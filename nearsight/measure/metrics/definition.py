"""Define a metric of attention once, for blocks of rows and for whole attention.

A metric consists of a sum over the query rows of a layer and a function that turns the total into
one number per image and head (or per image). ``measure_model`` adds up the sums of the blocks that
it recomputes; the pure functions treat the whole attention as a single block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.layout import MAX_RADIUS, Geometry, Layout
from nearsight.measure.rows import RowBlock, Rows
from nearsight.models.layers import Grid, as_grid

ROW_SUM_TOLERANCE = 1e-4  # float32 and float64; rows in half precision sum to 1 within 0.01
HALF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Sum:
    """A sum over rows, in float64: [image, head, ...], or [image, ...] if ``of_layer``.

    Attributes:
        of: Computes the sum of one block.
        kernel: Field of ``RowSums`` that holds this sum if compiled code can compute it.
        parts: Sums from which ``derive`` computes this one, which is then not added up itself.
        derive: Computes the sum from the totals of ``parts`` and the layer's geometry. It returns
            NaN for images and heads for which the difference of the parts would lose digits; there,
            the sum is added up by ``of`` after all.
        needs_sink: Whether ``of`` reads ``Rows.sink``.
        of_layer: Whether ``of`` needs all heads of a layer in one block.
    """

    of: Callable[[Any], Tensor]
    kernel: Literal["distance_sums", "near_sums", "entropy_sums"] | None = None
    parts: tuple[Sum, ...] = ()
    derive: Callable[..., Tensor] | None = None
    needs_sink: bool = False
    of_layer: bool = False


@dataclass(frozen=True)
class RowMetric:
    """A metric of attention, computed by ``value`` from the ``total`` over all rows.

    Several metrics may share a total. ``uniform`` gives the value of uniform attention on a grid,
    if it is known in closed form.
    """

    total: Sum
    value: Callable[[Tensor, Geometry], Tensor]
    uniform: Callable[[Grid], float] | None = None

    def of_block(self, rows: Rows) -> Tensor:
        """Return the metric of a block that holds all rows."""
        return self.value(self.total.of(rows), rows.geometry)


@dataclass(frozen=True)
class FeatureMetric:
    """A metric of features [image, row, col, width] and, if it needs it, of the class token's."""

    of: Callable[..., Tensor]
    needs_class: bool = False


def mean_over_rows(total: Tensor, at: Geometry) -> Tensor:
    """Divide a total by the number of patches."""
    return total / at.grid.num_patches


def accept_arrays(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a metric's function also take numpy arrays, and tuples such as ``(8, 8)`` for grids."""

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        return as_grid(value) if isinstance(value, tuple) else value

    @wraps(function)
    def accepting(*args: Any, **options: Any) -> Tensor:
        values = {name: convert(value) for name, value in options.items()}
        return function(*map(convert, args), **values)

    return accepting


def patch_attention(
    attention: Float[Tensor, "batch head token token"], num_prefix: int
) -> Float[Tensor, "batch head patch patch"]:
    """Return attention between patches: drop prefix tokens, and renormalise every row.

    The row of a patch that gives all its attention to prefix tokens cannot be renormalised. It
    raises an error, because any number for that patch would be invented.

    Args:
        attention: Weights over all tokens, prefix tokens first.
        num_prefix: Number of class and register tokens.

    Raises:
        UserError: If these are logits, if a patch attends to prefix tokens only, or if the shape is
            wrong.

    >>> import torch
    >>> patch_attention(torch.tensor([[[[0.2, 0.8, 0.0], [0.5, 0.1, 0.4], [0.0, 0.5, 0.5]]]]), 1)
    tensor([[[[0.2000, 0.8000],
              [0.5000, 0.5000]]]])
    """
    if attention.ndim != 4 or attention.shape[-2] != attention.shape[-1]:
        raise UserError(
            "attention must have the shape [batch, head, token, token], but it is "
            f"{list(attention.shape)}"
        )
    if not 0 <= num_prefix < attention.shape[-1]:
        raise UserError(
            f"num_prefix is {num_prefix}, but it must be at least 0 and less than the "
            f"{attention.shape[-1]} tokens of the attention"
        )
    _refuse_logits(attention)
    patches = attention[..., num_prefix:, num_prefix:]
    mass = patches.sum(-1, keepdim=True)
    if not bool((mass > 0).all()):
        raise UserError(
            "a patch gives its whole attention to prefix tokens (or NaN), so its attention to "
            "patches cannot be renormalised; leave this image or head out"
        )
    return patches / mass


def _refuse_logits(attention: Tensor) -> None:
    """Raise a UserError if an entry is negative, as only logits are."""
    if bool((attention < 0).any()):
        raise UserError(
            "the attention has negative entries, so these are logits and not weights; "
            "pass logits.softmax(-1)"
        )


def check_rows(attention: Tensor, num_patches: int | None = None) -> Tensor:
    """Return the attention in float64 after checking its shape and that its rows sum to one.

    Raises:
        UserError: If they do not.
    """
    if attention.ndim != 4 or (num_patches and attention.shape[-2:] != (num_patches,) * 2):
        sizes = f"{num_patches}, {num_patches}" if num_patches else "query, key"
        raise UserError(
            f"attention must have the shape [batch, head, {sizes}], but it is "
            f"{list(attention.shape)}; drop prefix tokens with patch_attention first"
        )
    _refuse_logits(attention)
    wide = attention.double()
    tolerance = ROW_SUM_TOLERANCE if attention.dtype.itemsize >= 4 else HALF_TOLERANCE
    error = float((wide.detach().sum(-1) - 1).abs().max()) if wide.numel() else 0.0
    if not error <= tolerance:
        raise UserError(
            f"every row of the attention must sum to one, but one is off by {error:.3g}; "
            "drop prefix tokens with patch_attention, which renormalises the rows"
        )
    return wide


def whole_block(
    attention: Float[Tensor, "batch head query key"],
    grid: Grid | None = None,
    max_radius: int = MAX_RADIUS,
) -> Rows:
    """Check whole attention and return it as a single block of float64 rows.

    Args:
        attention: Attention over patches.
        grid: Rows and columns of patches. By default queries and keys stand in one row, which is
            enough for metrics without distances.
        max_radius: Largest radius for which the mass near a patch will be needed.
    """
    return block_of_rows(
        check_rows(attention, None if grid is None else grid.num_patches), grid, max_radius
    )


def block_of_rows(
    weights: Float[Tensor, "batch head query key"],
    grid: Grid | None = None,
    max_radius: int = MAX_RADIUS,
) -> Rows:
    """Return attention over patches as a single block, without checks or conversions."""
    num_images, num_heads, num_queries, num_keys = weights.shape
    layout = Layout(
        grid or Grid(1, num_queries),
        torch.arange(num_queries)[None],
        torch.arange(num_keys)[None],
        (grid or Grid(1, num_keys)).coordinates(),
    )
    weights = weights[:, None]  # [image, window, head, query, key]
    return Rows(
        weights=weights,
        entropies=torch.special.entr(weights).sum(-1),
        sink=None,
        geometry=Geometry(layout, weights.device, weights.dtype, max_radius),
        block=RowBlock(slice(0, num_images), slice(0, num_heads), slice(0, num_queries)),
        span=slice(0, num_queries),
        scratch=torch.empty_like(weights),
    )
