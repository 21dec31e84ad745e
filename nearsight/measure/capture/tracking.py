"""Follow a softmax to the product with values: explicit attention, whoever wrote it.

The rows of a softmax may pass through dropout, casts, reshapes, gates (ConViT) or a mixing of heads
(CaiT) before they meet the values. What finally meets them is the attention if its rows are still
shares that sum to one; if they are not, the softmax itself is, and that is said.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nearsight.core import UserError

PRODUCTS = frozenset(
    {
        torch.matmul,
        torch.bmm,
        torch.einsum,
        Tensor.matmul,
        Tensor.bmm,
        Tensor.__matmul__,
    }
)
SOFTMAXES = frozenset({torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax})
ROW_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}
HALF_TOLERANCE = 2e-2
MIN_DIMENSIONS = 3  # [batch x head, query, key] at least; a classifier's softmax has fewer


class SoftmaxTracking:
    """Which tensors come from which softmax, between a softmax and the product that uses it."""

    def __init__(self) -> None:
        self._sources: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}  # id -> tensor, softmax

    def clear(self) -> None:
        self._sources.clear()

    def _source(self, value: Any) -> Tensor | None:
        """The softmax this tensor comes from."""
        if not isinstance(value, Tensor):
            return None
        tensor, softmax = self._sources.get(id(value), (None, None))
        return softmax if tensor is not None and tensor() is value else None

    def follow(self, func: Callable, args: tuple, kwargs: dict, output: Any) -> None:
        """Remember ``output`` where it is a softmax over the last axis, or made from one."""
        if not isinstance(output, Tensor):
            return
        if func in SOFTMAXES:
            if output.ndim >= MIN_DIMENSIONS and _last_axis(args, kwargs, output):
                self._sources[id(output)] = weakref.ref(output), output
            return
        if not self._sources:
            return
        for value in (*args, *kwargs.values()):
            softmax = self._source(value)
            if softmax is not None and output.numel() == softmax.numel():
                self._sources[id(output)] = weakref.ref(output), softmax
                return

    def product(self, func: Callable, args: tuple) -> dict[str, Any] | None:
        """Weights and values of a product whose left factor comes from a softmax."""
        factors = args[1:] if func is torch.einsum else args
        if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
            factors = tuple(factors[0])
        if len(factors) != 2 or (softmax := self._source(factors[0])) is None:
            return None
        left, values = factors
        if func is torch.einsum and not _sums_last_axis(args[0]):
            raise UserError(
                f"expected einsum to sum the last axis of its attention, got {args[0]!r}: "
                "this form of attention is not known to nearsight"
            )
        if _is_stochastic(left):
            return {"weights_made": left, "values": values}
        return {"weights_made": softmax, "values": values, "multiplied": left}


def _last_axis(args: tuple, kwargs: dict, output: Tensor) -> bool:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return dim in (-1, output.ndim - 1)


def _is_stochastic(rows: Tensor) -> bool:
    """Whether every row holds shares that sum to one."""
    tolerance = ROW_TOLERANCE.get(rows.dtype, HALF_TOLERANCE)
    sums = rows.sum(-1, dtype=torch.promote_types(rows.dtype, torch.float32))
    return bool(((sums - 1).abs() <= tolerance).all()) and bool((rows >= -tolerance).all())


def _sums_last_axis(equation: str) -> bool:
    """Whether ``...ij,...jd->...id`` it is, in any letters: j summed, i kept and left of d."""
    inputs, _, result = equation.replace(" ", "").partition("->")
    left, _, right = inputs.partition(",")
    return left[-1] == right[-2] and result[-2:] == left[-2] + right[-1]
