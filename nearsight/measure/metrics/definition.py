"""How a metric of attention is written down: once, for blocks of rows and for whole attention.

A metric is a sum over the query rows of a layer and a last step that turns the sum of all rows into
the number per image and head (or per image). ``measure_model`` adds up the sums of blocks that it
recomputes; the pure functions call the same code with the whole attention as a single block.
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

ROW_SUM_TOLERANCE = 1e-4  # float32 and float64; half precision sums to one within a hundredth
HALF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Sum:
    """A sum over rows: [image, head, ...] of a block, or [image, ...] ``of_layer``, in float64.

    ``kernel`` names the sum of ``RowSums`` that compiled code may give instead. A sum with
    ``parts`` is not added up over rows: ``derive`` makes it of the totals of its parts and the
    geometry of the layer, with NaN for the images and heads that need ``of`` itself because the
    difference of the parts would lose digits.
    """

    of: Callable[[Any], Tensor]
    kernel: Literal["distance_sums", "near_sums", "entropy_sums"] | None = None
    parts: tuple[Sum, ...] = ()
    derive: Callable[..., Tensor] | None = None
    needs_sink: bool = False
    of_layer: bool = False


@dataclass(frozen=True)
class RowMetric:
    """``value`` of the total over all rows, per image and head; metrics may share a total.

    ``uniform`` is the value of uniform attention on a grid, where it is known in closed form.
    """

    total: Sum
    value: Callable[[Tensor, Geometry], Tensor]
    uniform: Callable[[Grid], float] | None = None

    def of_block(self, rows: Rows) -> Tensor:
        """Return the metric of a block that holds all rows."""
        return self.value(self.total.of(rows), rows.geometry)


@dataclass(frozen=True)
class FeatureMetric:
    """A metric of features [image, row, col, width] and, if it needs it, the class token's."""

    of: Callable[..., Tensor]
    needs_class: bool = False


def mean_over_rows(total: Tensor, at: Geometry) -> Tensor:
    return total / at.grid.num_patches


def accept_arrays(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a metric's pure function for those outside: arrays of numpy and tuples will do.

    Attention may be a numpy array, and a grid rows and columns, as in ``(8, 8)``.
    """

    def ready(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        return as_grid(value) if isinstance(value, tuple) else value

    @wraps(function)
    def accepting(*args: Any, **options: Any) -> Tensor:
        values = {name: ready(value) for name, value in options.items()}
        return function(*map(ready, args), **values)

    return accepting


def patch_attention(
    attention: Float[Tensor, "batch head token token"], num_prefix: int
) -> Float[Tensor, "batch head patch patch"]:
    """Attention between patches only: prefix rows and columns dropped, every row renormalised.

    A patch that spends all its attention on prefix tokens has no attention to renormalise; that
    raises, because any number given for it would be invented.

    >>> import torch
    >>> patch_attention(torch.tensor([[[[0.2, 0.8, 0.0], [0.5, 0.1, 0.4], [0.0, 0.5, 0.5]]]]), 1)
    tensor([[[[0.2000, 0.8000],
              [0.5000, 0.5000]]]])
    """
    if attention.ndim != 4 or attention.shape[-2] != attention.shape[-1]:
        raise UserError(
            f"expected attention [batch, head, token, token], got {list(attention.shape)}"
        )
    if not 0 <= num_prefix < attention.shape[-1]:
        raise UserError(
            f"expected fewer prefix tokens than the {attention.shape[-1]} tokens of the attention, "
            f"got {num_prefix}"
        )
    if bool((attention < 0).any()):
        raise UserError(
            "the attention has negative numbers, so these are logits, not weights; "
            "give logits.softmax(-1)"
        )
    patches = attention[..., num_prefix:, num_prefix:]
    mass = patches.sum(-1, keepdim=True)
    if not bool((mass > 0).all()):
        raise UserError(
            "expected every patch to attend to some patch, "
            "got a row whose whole attention is on prefix tokens (or is not a number)"
        )
    return patches / mass


def checked_rows(attention: Tensor, num_patches: int | None = None) -> Tensor:
    """Return the attention in float64; raise unless its shape and its row sums are right."""
    if attention.ndim != 4 or (num_patches and attention.shape[-2:] != (num_patches,) * 2):
        wanted = f"{num_patches}, {num_patches}" if num_patches else "query, key"
        raise UserError(
            f"expected attention [batch, head, {wanted}], got {list(attention.shape)}; "
            "drop prefix tokens with patch_attention first"
        )
    wide = attention.double()
    tolerance = ROW_SUM_TOLERANCE if attention.dtype.itemsize >= 4 else HALF_TOLERANCE
    error = float((wide.detach().sum(-1) - 1).abs().max()) if wide.numel() else 0.0
    if not error <= tolerance:
        raise UserError(
            f"expected rows that sum to one, got a row that is off by {error:.3g}; "
            "drop prefix tokens with patch_attention, which renormalises"
        )
    return wide


def whole_block(
    attention: Float[Tensor, "batch head query key"],
    grid: Grid | None = None,
    max_radius: int = MAX_RADIUS,
) -> Rows:
    """Return the whole attention, once it was checked, as a single block of float64 rows.

    Without a ``grid`` queries and keys are placed in a line, for metrics that ask for no distance.
    """
    return block_of_rows(
        checked_rows(attention, None if grid is None else grid.num_patches), grid, max_radius
    )


def block_of_rows(
    weights: Float[Tensor, "batch head query key"],
    grid: Grid | None = None,
    max_radius: int = MAX_RADIUS,
) -> Rows:
    """Return rows over patches as they are as a single block."""
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
