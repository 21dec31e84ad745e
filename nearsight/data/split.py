"""The stratified split of the official training set into train and validation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Int64

from nearsight.data.draws import permutation

Kept = Int64[np.ndarray, " kept"]
Held = Int64[np.ndarray, " held"]


def held_out(number: int, fraction: float) -> int:
    """``number * fraction``, rounded; a half goes down. The fraction is taken as it is written.

    >>> held_out(500, 0.2), held_out(5, 0.1), held_out(8, 0.2)
    (100, 0, 2)
    """
    return math.ceil(number * Fraction(str(fraction)) - Fraction(1, 2))


def stratified_split(
    labels: Int64[np.ndarray, " n"], fraction: float, seed: int
) -> tuple[Kept, Held]:
    """Sorted indices of train and validation; ``fraction`` of every class goes to validation.

    A function of labels, fraction and seed alone: the order within a class is a hash.
    """
    parts = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        order = permutation("split", seed, int(label), length=len(members)).numpy()
        parts.append(members[order[: held_out(len(members), fraction)]])
    chosen = np.zeros(len(labels), bool)
    chosen[np.concatenate(parts)] = True
    if not chosen.any() or chosen.all():
        raise ValueError(
            f"{len(labels)} images in {len(parts)} classes leave one side of a split by {fraction} "
            "empty; add images or change the fraction"
        )
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
