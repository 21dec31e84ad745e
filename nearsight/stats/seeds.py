"""Exact tests over seeds: the sign-flip test, what it can reach, and Holm's adjustment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsight.core import UserError

FEWEST_FOR_P = 6  # seeds; with 5 the smallest p is 0.0625


MOST_FOR_P = 24  # seeds; 2^23 sums are the most that are enumerated


def sign_flip_p(differences: Sequence[float]) -> float:
    """Exact two-sided p: the share of all 2^n choices of signs with a mean as far from 0, or more.

    Range 2 / 2^n to 1. It assumes only that without an effect a difference is as likely as its
    negative.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    n = len(differences)
    if not 1 <= n <= MOST_FOR_P:
        raise UserError(f"expected 1 to {MOST_FOR_P} differences for an exact p, got {n}")
    sums = np.array([float(differences[0])])  # the first sign is fixed: the rest mirrors it
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    slack = 1e-12 * float(np.abs(differences).sum())  # sums of other order, equal but for rounding
    return float(np.mean(np.abs(sums) >= abs(float(np.sum(differences))) - slack))


def smallest_p(n: int) -> float:
    """The smallest p that the sign-flip test can reach with n seeds: 2 / 2^n."""
    return 2.0 / 2**n


def smallest_p_text(n: int, num_contrasts: int) -> str:
    """What a sign-flip test with n seeds can show at best, in words.

    >>> print(smallest_p_text(6, 7))
    With 6 seeds the smallest p that a sign flip can reach is 2/2^6 = 0.031, after Holm 0.22.
    """
    if n < FEWEST_FOR_P:
        return (
            f"No p: with {n} seed{'s' * (n != 1)} a sign flip could reach no less than "
            f"2/2^{n} = {min(smallest_p(n), 1.0):.2g}; it takes {FEWEST_FOR_P} seeds."
        )
    if n > MOST_FOR_P:
        return f"No p: all signs of {n} seeds are too many to go through (at most {MOST_FOR_P})."
    least = smallest_p(n)
    return (
        f"With {n} seeds the smallest p that a sign flip can reach is 2/2^{n} = {least:.2g}, "
        f"after Holm {min(1.0, num_contrasts * least):.2g}."
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given: at most their level of error over the whole family.

    >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    m, worst = len(p_values), 0.0
    adjusted = [0.0] * m
    for rank, index in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (m - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted
