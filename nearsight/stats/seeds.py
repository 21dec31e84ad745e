"""Exact tests over seeds: the sign-flip test, what it can reach, and Holm's adjustment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsight.core import UserError

FEWEST_FOR_P = 6  # differences; with 5 the smallest p is 0.0625


MOST_FOR_P = 40  # differences; two times 2^19 partial sums are kept


def sign_flip_p(differences: Sequence[float]) -> float:
    """Exact two-sided p: the share of all 2^n choices of signs with a mean as far from 0, or more.

    Range 2 / 2^n to 1. It assumes only that without an effect a difference is as likely as its
    negative. The differences are one per seed, or one per pair of runs that differ in one factor:
    with 3 seeds and 4 pairs in each there are 2^12 patterns, and p may be as small as 0.0005.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    n = len(differences)
    if not 1 <= n <= MOST_FOR_P:
        raise UserError(f"expected 1 to {MOST_FOR_P} differences for an exact p, got {n}")
    # All sums are those of one half of the differences plus those of the other, which are sorted.
    one, other = _signed_sums(differences[: n // 2]), np.sort(_signed_sums(differences[n // 2 :]))
    slack = 1e-12 * float(np.abs(differences).sum())  # sums of other order, equal but for rounding
    least = abs(float(np.sum(differences))) - slack
    if least <= 0:
        return 1.0
    above = len(other) - np.searchsorted(other, least - one, "left")
    below = np.searchsorted(other, -least - one, "right")
    return float((above.sum() + below.sum()) / 2**n)


def _signed_sums(differences: Sequence[float]) -> np.ndarray:
    """Return the sums of all choices of signs."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def smallest_p(n: int) -> float:
    """The smallest p that the sign-flip test can reach with n differences: 2 / 2^n."""
    return 2.0 / 2**n


def smallest_p_text(n: int, num_contrasts: int, pairs_per_seed: int = 1) -> str:
    """What a sign-flip test with n seeds can show at best, in words.

    ``pairs_per_seed``: pairs of runs in a seed that differ in one factor alone.

    >>> print(smallest_p_text(6, 7))
    With 6 seeds the smallest p that a sign flip can reach is 2/2^6 = 0.031, after Holm 0.22.
    >>> print(smallest_p_text(3, 3, 4))
    With 3 seeds of 4 pairs the smallest p that a sign flip can reach is 2/2^12 = 0.00049, \
after Holm 0.0015.
    """
    signs = n * pairs_per_seed
    if signs < FEWEST_FOR_P:
        return (
            f"No p: with {n} seed{'s' * (n != 1)} a sign flip could reach no less than "
            f"2/2^{signs} = {min(smallest_p(signs), 1.0):.2g}; it takes {FEWEST_FOR_P} differences."
        )
    if signs > MOST_FOR_P:
        return f"No p: {signs} differences have too many signs to go through ({MOST_FOR_P})."
    least = smallest_p(signs)
    pairs = f" of {pairs_per_seed} pairs" if pairs_per_seed > 1 else ""
    return (
        f"With {n} seeds{pairs} the smallest p that a sign flip can reach is 2/2^{signs} = "
        f"{least:.2g}, after Holm {min(1.0, num_contrasts * least):.2g}."
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
