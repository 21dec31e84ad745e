"""Follow the axes of attention weights through reshapes, transpositions, products and einsums."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nearsight.core import UserError

Orders = tuple[tuple[int, ...], ...]  # permutations of the axes of weights, values and output
PERMUTATIONS = frozenset({torch.permute, Tensor.permute})
EXCHANGES = frozenset(
    {
        torch.transpose,
        Tensor.transpose,
        torch.swapaxes,
        Tensor.swapaxes,
        torch.swapdims,
        Tensor.swapdims,
    }
)
TRANSPOSITIONS = frozenset({Tensor.mT.__get__, Tensor.T.__get__})  # type: ignore[attr-defined]


def to_end(tensor: Tensor, letters: str, last: str) -> Tensor:
    """Permute a tensor so that the axes of these einsum letters come last."""
    first = tensor.ndim - len(letters)
    order = [x for x in letters if x not in last] + list(last)
    return tensor.permute(*range(first), *(first + letters.index(x) for x in order))


def moved_axes(
    func: Callable, args: tuple, value: Tensor, output: Tensor, axes: tuple[int, int]
) -> tuple[int, int] | None:
    """Return where two axes of ``value`` are in ``output``, which was made from it, if known.

    Args:
        func: The torch function that made ``output``.
        args: Its positional arguments.
        value: The argument whose axes are followed.
        output: What the function returned.
        axes: The query and the key axis of ``value``.
    """
    if func in PERMUTATIONS or func in EXCHANGES or func in TRANSPOSITIONS:
        order = list(range(value.ndim))
        if func in PERMUTATIONS:
            given = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
            order = [x % value.ndim for x in given]
        else:
            a, b = (x % value.ndim for x in (args[1:3] if func in EXCHANGES else (-2, -1)))
            order[a], order[b] = order[b], order[a]
        return order.index(axes[0]), order.index(axes[1])
    if output.numel() != value.numel():
        return None
    if output.shape == value.shape:
        return axes
    from_end = tuple(axis - value.ndim for axis in axes)
    last = min(from_end)
    if last >= -2 and output.ndim >= 2 and output.shape[-2:] == value.shape[-2:]:
        return output.ndim + from_end[0], output.ndim + from_end[1]
    return None


def identity_order(tensor: Tensor) -> tuple[int, ...]:
    """Return the permutation that leaves the axes of a tensor as they are."""
    return tuple(range(tensor.ndim))


def matmul_orders(side: int, tensors: tuple[Tensor, ...]) -> Orders:
    """Return the orders that bring a matrix product into the form ``weights @ values``.

    If the weights are on the right (``side`` is 1), all three tensors are transposed.
    """
    if side == 0:
        return tuple(identity_order(x) for x in tensors)
    return tuple((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2) for x in tensors)


def einsum_orders(equation: str, side: int, tensors: tuple[Tensor, ...]) -> Orders:
    """Return the orders that bring an einsum into the form ``...qk,...kw->...qw``.

    Raises:
        UserError: If the equation does not sum over the keys, or has other axes than these.
    """
    inputs, _, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    given = terms[side], terms[1 - side], result
    if all(term.startswith("...") for term in given):
        given = given[0][3:], given[1][3:], given[2][3:]
    weights, values, result = given
    keys = [x for x in weights[-2:] if x in values and x not in result]
    queries = [x for x in weights[-2:] if x not in keys]
    wanted: tuple[str, ...] = ()
    if len(keys) == len(queries) == 1:
        leading, query, key = weights[:-2], queries[0], keys[0]
        width = "".join(x for x in values if x not in weights)
        wanted = leading + query + key, leading + key + width, leading + query + width
    if [sorted(x) for x in wanted] != [sorted(x) for x in given] or len(width) != 1:
        raise UserError(
            f"its einsum {equation!r} does not have the form '...qk,...kw->...qw', which sums "
            "over the keys; write it in this form, so that nearsight can measure it"
        )
    return tuple(
        (*range(first := x.ndim - len(have)), *(first + have.index(letter) for letter in want))
        for x, have, want in zip(tensors, given, wanted)
    )
