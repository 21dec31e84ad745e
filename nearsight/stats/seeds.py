"""Test differences over seeds exactly with the sign-flip test, and adjust for many tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearsight.core import UserError

FEWEST_FOR_P = 6  # differences; with 5, the smallest possible p is 0.0625
MOST_FOR_P = 40  # differences; the test keeps two arrays of 2^20 partial sums


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the exact two-sided p value of the sign-flip test.

    The p value is the share of all 2^n choices of signs whose mean is at least as far from 0 as the
    observed mean. It ranges from 2 / 2^n to 1. The test assumes only that, if there is no effect, a
    difference is as likely as its negative. Give one difference per seed, or one per pair of runs
    that differ in one factor: 3 seeds with 4 pairs each give 12 differences and 2^12 choices of
    signs, so that p can be as small as 0.0005.

    Raises:
        UserError: If there are no differences, or more than ``MOST_FOR_P``.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    n = len(differences)
    if not 1 <= n <= MOST_FOR_P:
        raise UserError(f"an exact p value needs 1 to {MOST_FOR_P} differences, but there are {n}")
    # Every sum is a sum over the first half of the differences plus a sum over the second half.
    # Sorting the sums of one half allows us to count by binary search, without forming all 2^n.
    one, other = _signed_sums(differences[: n // 2]), np.sort(_signed_sums(differences[n // 2 :]))
    slack = 1e-12 * float(np.abs(differences).sum())  # sums that differ only by rounding
    least = abs(float(np.sum(differences))) - slack
    if least <= 0:
        return 1.0
    above = len(other) - np.searchsorted(other, least - one, "left")
    below = np.searchsorted(other, -least - one, "right")
    return float((above.sum() + below.sum()) / 2**n)


def _signed_sums(differences: Sequence[float]) -> np.ndarray:
    """Return the sum of the differences for every choice of their signs."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def smallest_p(n: int) -> float:
    """Return the smallest p value that the sign-flip test can give for n differences."""
    return 2.0 / 2**n


def smallest_p_text(n: int, num_contrasts: int, pairs_per_seed: int = 1) -> str:
    """Describe the smallest p value that a sign-flip test can give with n seeds.

    Args:
        n: The number of seeds.
        num_contrasts: The number of contrasts that are tested together.
        pairs_per_seed: The number of pairs of runs of one seed that differ in a single factor.

    >>> print(smallest_p_text(6, 7))
    With 6 seeds, the smallest p value that the sign-flip test can give is 2/2^6 = 0.031 \
(0.22 after Holm's correction).
    >>> print(smallest_p_text(3, 3, 4))
    With 3 seeds of 4 pairs, the smallest p value that the sign-flip test can give is \
2/2^12 = 0.00049 (0.0015 after Holm's correction).
    """
    signs = n * pairs_per_seed
    if signs < FEWEST_FOR_P:
        return (
            f"There are no p values: with {n} seed{'s' * (n != 1)}, the smallest that the "
            f"sign-flip test could give is 2/2^{signs} = {min(smallest_p(signs), 1.0):.2g}. "
            f"The test needs at least {FEWEST_FOR_P} differences."
        )
    if signs > MOST_FOR_P:
        return (
            f"There are no p values: the exact sign-flip test takes at most {MOST_FOR_P} "
            f"differences, but there are {signs}."
        )
    least = smallest_p(signs)
    pairs = f" of {pairs_per_seed} pairs" if pairs_per_seed > 1 else ""
    return (
        f"With {n} seeds{pairs}, the smallest p value that the sign-flip test can give is "
        f"2/2^{signs} = {least:.2g} ({min(1.0, num_contrasts * least):.2g} after Holm's "
        "correction)."
    )


def simultaneous_level(num_intervals: int, level: float = 0.95) -> float:
    """Return the level that each of several intervals needs so that all hold at once (Bonferroni).

    All intervals together contain the true values with a probability of at least ``level``, however
    the numbers depend on each other. They may come from the same seeds, and even the same runs.

    >>> simultaneous_level(1), round(simultaneous_level(35), 5)
    (0.95, 0.99857)
    """
    if num_intervals < 1:
        raise UserError(
            f"there must be at least one interval, but num_intervals is {num_intervals}"
        )
    return 1 - (1 - level) / num_intervals


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method, in the given order.

    The adjusted values bound the probability of any false positive among all the tests.

    >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    m, worst = len(p_values), 0.0
    adjusted = [0.0] * m
    for rank, index in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (m - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted
