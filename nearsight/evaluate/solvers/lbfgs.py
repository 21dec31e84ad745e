"""Minimise smooth convex functions of a few thousand numbers by L-BFGS (Nocedal 1980).

Bisection finds a step that meets the weak Wolfe conditions (Lewis and Overton 2013), so that every
update keeps the estimated curvature positive. Where rounding hides whether the value falls, the
slopes at both ends decide (Hager and Zhang 2005). Nothing is random: the same function gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

HISTORY = 20  # pairs of a step and the change of the gradient to remember
DESCENT, CURVATURE = 1e-4, 0.9  # the constants of the two Wolfe conditions
ROUNDING = 1e-7  # relative differences of values below this are lost in single precision
TRIALS = 40  # lengths of a step to try
Vector = Float[np.ndarray, " number"]
Function = Callable[[Vector], tuple[float, Vector]]  # value and gradient


class Minimum(NamedTuple):
    """The minimum of a function, and how it was found."""

    place: Vector
    value: float
    steps: int
    slope: float  # largest absolute entry of the gradient there
    converged: bool  # whether the slope is within the tolerance


def minimise(
    function: Function, start: Vector, *, tolerance: float = 1e-5, most: int = 1000
) -> Minimum:
    """Minimise a smooth convex function.

    Args:
        function: Returns the value and the gradient at a place.
        start: The place to start from.
        tolerance: Stop when no entry of the gradient is larger than this.
        most: The largest number of steps.

    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.array([3.0, -4.0]))
    >>> bool(np.allclose(found.place, 0, atol=1e-5)), found.converged
    (True, True)
    """
    place = np.asarray(start, np.float64)
    value, gradient = function(place)
    pairs: list[tuple[Vector, Vector, float]] = []
    steps = 0
    while steps < most and np.abs(gradient).max() > tolerance:
        direction = _direction(gradient, pairs)
        first = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        found = _search(function, place, value, gradient, direction, first)
        if found is None:
            break  # rounding hides any further descent
        moved, new_value, new_gradient = found
        change, turned = moved - place, new_gradient - gradient
        curvature = float(change @ turned)
        if curvature > 0:
            pairs = [*pairs[-HISTORY + 1 :], (change, turned, 1 / curvature)]
        place, value, gradient = moved, new_value, new_gradient
        steps += 1
    slope = float(np.abs(gradient).max())
    return Minimum(place, value, steps, slope, slope <= tolerance)


def _direction(gradient: Vector, pairs: list[tuple[Vector, Vector, float]]) -> Vector:
    """Multiply the negative gradient by the estimated inverse curvature (two-loop recursion)."""
    found = -gradient
    weights = []
    for change, turned, inverse in reversed(pairs):
        weights.append(inverse * float(change @ found))
        found = found - weights[-1] * turned
    if pairs:
        _, turned, inverse = pairs[-1]
        found = found / (inverse * float(turned @ turned))
    for (change, turned, inverse), weight in zip(pairs, reversed(weights)):
        found = found + (weight - inverse * float(turned @ found)) * change
    return found


def _search(
    function: Function,
    place: Vector,
    value: float,
    gradient: Vector,
    direction: Vector,
    length: float,
) -> tuple[Vector, float, Vector] | None:
    """Find a step along ``direction`` that meets both conditions; None if none descends."""
    slope = float(gradient @ direction)
    low, high = 0.0, np.inf
    best = None
    for _ in range(TRIALS):
        moved = place + length * direction
        there, after = function(moved)
        rises = float(after @ direction)
        lower = there <= value + DESCENT * length * slope
        if not lower and there <= value + ROUNDING * abs(value):
            lower = rises <= (2 * DESCENT - 1) * slope  # rounding hides the value, so ask the slope
        if not lower:
            high = length
        else:
            best = moved, there, after
            if rises >= CURVATURE * slope:
                return best
            low = length
        length = 2 * low if high == np.inf else (low + high) / 2
    return best
