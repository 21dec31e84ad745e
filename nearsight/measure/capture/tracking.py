"""Recognise explicit attention by following a softmax until it is multiplied with the values.

Between the softmax and the values, the weights may pass through dropout, casts, reshapes, gates
(ConViT) or a mixing of heads (CaiT). If the rows of the tensor that finally multiplies the values
still sum to one, this tensor is taken as the attention. Otherwise the softmax itself is taken, and
the tensor is recorded as ``multiplied``. The weights may be on the left (``weights @ values``) or
on the right (``values @ weights.mT``, as in SHViT). A softmax may also be written by hand, as
exponentials divided by their sums or as the exponential of ``log_softmax``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.capture.axes import (
    einsum_orders,
    identity_order,
    matmul_orders,
    moved_axes,
    to_end,
)

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
SUMMED_PRODUCTS = frozenset({torch.baddbmm, Tensor.baddbmm})  # arguments: a bias and two factors
EXPONENTIALS = frozenset({torch.exp, Tensor.exp, torch.exp_, Tensor.exp_})
DIVISIONS = frozenset(
    {
        torch.div,
        torch.divide,
        torch.true_divide,
        Tensor.div,
        Tensor.div_,
        Tensor.divide,
        Tensor.true_divide,
        Tensor.__truediv__,
        Tensor.__itruediv__,
        F.normalize,
    }
)
# Marks that a module gets if a softmax that cannot be measured was a factor of a product in it.
LINEAR = "a softmax over another axis than the keys was multiplied"
UNBATCHED = "a softmax of two axes was multiplied"
MIN_DIMENSIONS = 3  # attention is [batch x head, query, key]; a classifier's softmax has two axes


@dataclass(frozen=True)
class Factors:
    """Queries [..., query, width] and keys [..., key, width] whose product became logits.

    ``query_axis`` and ``key_axis`` tell where the two are in the tensor that was made from the
    product, which may have been reshaped or transposed since.
    """

    queries: Tensor
    keys: Tensor
    query_axis: int
    key_axis: int


@dataclass(frozen=True)
class TrackedProduct:
    """A product of attention and values, brought into the form ``weights @ values``.

    Attributes:
        arguments: Arguments for an ``AttentionCall``.
        order: The permutation that turns the product's output into [..., query, width].
    """

    arguments: dict[str, Any]
    order: tuple[int, ...]


class SoftmaxTracking:
    """Remember which tensors were made from which softmax until they are multiplied with values.

    Tensors are remembered by weak references, so none is kept in memory for this.

    Args:
        with_factors: Also remember which queries and keys a softmax was made from.
    """

    def __init__(self, with_factors: bool = False) -> None:
        self._sources: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}  # id -> tensor, softmax
        self._others: dict[int, tuple[weakref.ref[Tensor], str]] = {}  # softmaxes not over keys
        self._exponentials: dict[int, weakref.ref[Tensor]] = {}
        self._factors: dict[int, tuple[weakref.ref[Tensor], tuple[Factors, ...]]] = {}
        self._with_factors = with_factors

    def clear(self) -> None:
        """Forget everything."""
        self._sources.clear()
        self._others.clear()
        self._exponentials.clear()
        self._factors.clear()

    def _factors_of(self, value: Any) -> tuple[Factors, ...]:
        """Return the products of queries and keys from which this tensor was made."""
        if not isinstance(value, Tensor):
            return ()
        tensor, factors = self._factors.get(id(value), (None, ()))
        return factors if tensor is not None and tensor() is value else ()

    def _follow_factors(self, func: Callable, args: tuple, kwargs: dict, output: Tensor) -> None:
        """Remember ``output`` if it is a product that may become logits, or was made from one."""
        sources: list[Factors] = []
        if func in PRODUCTS or func in SUMMED_PRODUCTS:
            factors = _factors(func, args, output)
            sources += [factors] if factors else []
        for value in (*args, *kwargs.values()):
            for known in self._factors_of(value):
                axes = moved_axes(func, args, value, output, (known.query_axis, known.key_axis))
                if axes:
                    sources.append(Factors(known.queries, known.keys, *axes))
        if sources:
            self._factors[id(output)] = weakref.ref(output), tuple(sources)

    def _logit_factors(self, softmax: Tensor) -> tuple[Factors, ...]:
        """Return the factors of a softmax's logits, arranged so that its rows are queries."""
        last = softmax.ndim - 1
        arranged = []
        for each in self._factors_of(softmax):
            if (each.query_axis, each.key_axis) == (last - 1, last):
                arranged.append(each)
            elif (each.query_axis, each.key_axis) == (last, last - 1):
                arranged.append(Factors(each.keys, each.queries, last - 1, last))
        return tuple(arranged)

    def _source(self, value: Any) -> Tensor | None:
        """Return the softmax over keys from which this tensor was made."""
        if not isinstance(value, Tensor):
            return None
        tensor, softmax = self._sources.get(id(value), (None, None))
        return softmax if tensor is not None and tensor() is value else None

    def _other(self, value: Any) -> str | None:
        """Return the mark of the softmax this tensor was made from, if it was not over keys."""
        if not isinstance(value, Tensor):
            return None
        tensor, mark = self._others.get(id(value), (None, None))
        return mark if tensor is not None and tensor() is value else None

    def other_factor(self, func: Callable, args: tuple) -> str | None:
        """Return a mark if a factor of this product was made from a softmax not over keys."""
        if not self._others:
            return None
        return next(filter(None, map(self._other, _factors_given(func, args))), None)

    def follow(self, func: Callable, args: tuple, kwargs: dict, output: Any) -> None:
        """Remember ``output`` if it is a softmax, or was made from one with as many elements.

        Args:
            func: The torch function that was called.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            output: What it returned.
        """
        if not isinstance(output, Tensor):
            return
        if self._with_factors:
            self._follow_factors(func, args, kwargs, output)
        if func in SOFTMAXES:
            if over_keys(func, args, kwargs):
                self._sources[id(output)] = weakref.ref(output), output
            else:
                mark = UNBATCHED if output.ndim < MIN_DIMENSIONS else LINEAR
                self._others[id(output)] = weakref.ref(output), mark
            return
        if self._by_hand(func, args, output):
            self._sources[id(output)] = weakref.ref(output), output
            return
        if not self._sources and not self._others:
            return
        for value in (*args, *kwargs.values()):
            other = self._other(value)
            if other and output.numel() == value.numel():
                self._others[id(output)] = weakref.ref(output), other
            softmax = self._source(value)
            if softmax is not None and output.numel() == softmax.numel():
                self._sources[id(output)] = weakref.ref(output), softmax
                return

    def _by_hand(self, func: Callable, args: tuple, output: Tensor) -> bool:
        """Return whether ``output`` is a softmax written by hand, and follow exponentials to it."""
        if func in EXPONENTIALS:
            is_new = True
        elif self._exponentials:
            known = (self._exponentials.get(id(x)) for x in args[:2] if isinstance(x, Tensor))
            is_new = any(x is not None and (y := x()) is not None and y.numel() == output.numel()
                         for x in known)  # fmt: skip
        else:
            return False
        if not is_new or output.ndim < MIN_DIMENSIONS or output.shape[-1] == 1:
            return False
        if (func in EXPONENTIALS or func in DIVISIONS) and _is_stochastic(output):
            return True
        self._exponentials[id(output)] = weakref.ref(output)
        return False

    def product(self, func: Callable, args: tuple, output: Tensor) -> TrackedProduct | None:
        """Return weights and values if one factor of a product was made from a softmax, else None.

        Args:
            func: The torch function of the product.
            args: Its positional arguments.
            output: The product.

        Raises:
            UserError: If weights that no longer sum to one multiply the values from the right.
        """
        factors = _factors_given(func, args)
        if len(factors) != 2:
            return None
        side = 0 if self._source(factors[0]) is not None else 1
        made, values, softmax = factors[side], factors[1 - side], self._source(factors[side])
        if softmax is None or min(values.ndim, output.ndim) < 2:
            return None
        if _is_mixing(func, args, side, made, softmax, output):
            return None
        tensors = made, values, output
        orders = einsum_orders(args[0], side, tensors) if func is torch.einsum else None
        weights_order, values_order, order = orders or matmul_orders(side, tensors)
        weights = made.permute(weights_order)
        arguments: dict[str, Any] = {"values": values.permute(values_order)}
        if self._with_factors:
            arguments["factors"] = self._logit_factors(softmax)
        if _is_stochastic(weights):
            return TrackedProduct(arguments | {"weights_made": weights}, order)
        if weights_order == identity_order(made):
            return TrackedProduct(arguments | {"weights_made": softmax, "multiplied": made}, order)
        if _is_stochastic(made):  # its rows sum to one over queries instead of keys
            return None
        raise UserError(
            "its weights are changed after the softmax and multiply the values from the right, so "
            "the attention of a query does not sum to one; nearsight cannot measure this form"
        )


def _factors_given(func: Callable, args: tuple) -> tuple:
    """Return the tensors that a product multiplies."""
    given = args[1:] if func is torch.einsum else args
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def _is_mixing(
    func: Callable, args: tuple, side: int, made: Tensor, softmax: Tensor, output: Tensor
) -> bool:
    """Return whether a product mixes the heads of the weights, as in DeepViT, and sums no keys.

    Args:
        func: The torch function of the product.
        args: Its positional arguments.
        side: Which of its two factors was made from the softmax, 0 or 1.
        made: That factor.
        softmax: The softmax itself.
        output: The product.
    """
    if output.numel() != softmax.numel():
        return False
    if func is torch.einsum:
        inputs, _, result = args[0].replace(" ", "").partition("->")
        weights = inputs.split(",")[side]
        return weights[-1] in result and weights[-2] in result
    kept = made.shape[-2:] if side == 0 else made.mT.shape[-2:]
    return kept != softmax.shape[-2:] and made.ndim == softmax.ndim


def over_keys(func: Callable, args: tuple, kwargs: dict) -> bool:
    """Return whether a call of torch is a softmax over the last axis, as attention needs it."""
    if func not in SOFTMAXES or not args:
        return False
    dim, num = kwargs.get("dim", args[1] if len(args) > 1 else None), args[0].ndim
    return num >= MIN_DIMENSIONS and dim in (-1, num - 1)


def _factors(func: Callable, args: tuple, output: Tensor) -> Factors | None:
    """Return the two factors of a product as queries and keys; None for other forms."""
    last = output.ndim - 1
    given = args[1:] if func is torch.einsum or func in SUMMED_PRODUCTS else args
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = tuple(given[0])
    if len(given) != 2 or not all(isinstance(x, Tensor) and x.ndim >= 2 for x in given):
        return None
    left, right = given
    if func is not torch.einsum:
        return Factors(left, right.mT, last - 1, last)
    inputs, _, result = args[0].replace(" ", "").replace("...", "").partition("->")
    terms = inputs.split(",")
    shared = [x for x in terms[0] if x in terms[1] and x not in result]
    rows = [x for x in terms[0] if x in result and x not in terms[1]]
    cols = [x for x in terms[1] if x in result and x not in terms[0]]
    if not len(shared) == len(rows) == len(cols) == 1:
        return None
    first = output.ndim - len(result)
    return Factors(
        to_end(left, terms[0], rows[0] + shared[0]),
        to_end(right, terms[1], cols[0] + shared[0]),
        first + result.index(rows[0]),
        first + result.index(cols[0]),
    )


def _is_stochastic(rows: Tensor) -> bool:
    """Return whether every row is non-negative and sums to one, within rounding."""
    tolerance = ROW_TOLERANCE.get(rows.dtype, HALF_TOLERANCE)
    sums = rows.sum(-1, dtype=torch.promote_types(rows.dtype, torch.float32))
    return bool(((sums - 1).abs() <= tolerance).all()) and bool((rows >= -tolerance).all())
