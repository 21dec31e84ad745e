"""Split the official training set, or a fraction of each class, into train and validation.

The fraction is taken before the split, so 10 % means a tenth of both parts. The best epoch is
therefore chosen without further images. Fractions are nested: the 5 % are among the 10 %.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Int64

from nearsight.core import UserError
from nearsight.data.draws import permutation

Chosen = Int64[np.ndarray, " chosen"]
Kept = Int64[np.ndarray, " kept"]
Held = Int64[np.ndarray, " held"]


def rounded_share(number: int, fraction: float) -> int:
    """Return ``number * fraction`` rounded to the nearest whole number, a half downwards.

    The decimal digits of the fraction are exact: 0.1 is a tenth.

    >>> rounded_share(500, 0.2), rounded_share(5, 0.1), rounded_share(8, 0.2)
    (100, 0, 2)
    """
    return math.ceil(number * Fraction(str(fraction)) - Fraction(1, 2))


def stratified_split(
    labels: Int64[np.ndarray, " n"], fraction: float, seed: int
) -> tuple[Kept, Held]:
    """Split images into train and validation, with ``fraction`` of every class in validation.

    The result depends only on labels, fraction and seed, because the order within a class is a
    hash.

    Returns:
        The sorted indices of train and of validation.

    Raises:
        UserError: If one of the two would be empty.
    """
    parts = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        order = permutation("split", seed, int(label), length=len(members)).numpy()
        parts.append(members[order[: rounded_share(len(members), fraction)]])
    chosen = np.zeros(len(labels), bool)
    chosen[np.concatenate(parts)] = True
    if not chosen.any() or chosen.all():
        raise UserError(
            f"taking {fraction} of {len(labels)} images in {len(parts)} classes for validation "
            "leaves one part empty; add images or change the fraction"
        )
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def class_fraction(labels: Int64[np.ndarray, " n"], fraction: float, seed: int) -> Chosen:
    """Return sorted indices of ``fraction`` of every class; larger fractions contain smaller ones.

    Which images of a class are chosen depends only on the seed and the class.
    """
    parts = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        order = permutation("fraction", seed, int(label), length=len(members)).numpy()
        parts.append(members[order[: rounded_share(len(members), fraction)]])
    return np.sort(np.concatenate(parts))


def train_and_validation(
    labels: Int64[np.ndarray, " n"], fraction: float, validation_fraction: float, seed: int
) -> tuple[Kept, Held]:
    """Return the sorted indices of train and validation, together ``fraction`` of every class.

    Args:
        labels: The class of every image.
        fraction: The share of every class to use.
        validation_fraction: The share of these images that becomes the validation set.
        seed: Decides which images are used, and which of them are validation images.

    Raises:
        UserError: If a class has no image to train on or none to validate on.
    """
    if fraction == 1:
        return stratified_split(labels, validation_fraction, seed)
    chosen = class_fraction(labels, fraction, seed)
    for label in np.unique(labels):
        number = int((labels[chosen] == label).sum())
        held = rounded_share(number, validation_fraction)
        if not 0 < held < number:
            raise UserError(
                "every class needs an image to train on and one to validate on, but with "
                f"data.fraction {fraction}, class {label} has {number - held} and {held}; use a "
                "larger fraction"
            )
    train, validation = stratified_split(labels[chosen], validation_fraction, seed)
    return chosen[train], chosen[validation]
