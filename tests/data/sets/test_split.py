"""The stratified split: plain loops, exact counts, frozen indices."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from nearsight.core import UserError
from nearsight.data.draws import permutation
from nearsight.data.sets.split import (
    class_fraction,
    rounded_share,
    stratified_split,
    train_and_validation,
)


def split_by_loops(labels: list[int], numerator: int, denominator: int, seed: int) -> list[int]:
    """Validation indices: of every class the first of its shuffled members, a half rounded down."""
    chosen = []
    for label in sorted(set(labels)):
        members = [index for index, other in enumerate(labels) if other == label]
        count = (2 * len(members) * numerator + denominator - 1) // (2 * denominator)
        order = permutation("split", seed, label, length=len(members)).tolist()
        chosen += [members[place] for place in order[:count]]
    return sorted(chosen)


def test_split_equals_plain_loops() -> None:
    labels = np.random.default_rng(0).integers(0, 7, 211)
    train, validation = stratified_split(labels, 0.2, seed=5)
    assert validation.tolist() == split_by_loops(labels.tolist(), 1, 5, seed=5)
    assert sorted([*train, *validation]) == list(range(211))
    assert train.tolist() == sorted(train.tolist())


@pytest.mark.parametrize(
    ("number", "fraction", "count"),
    [
        (500, 0.2, 100),
        (7, 0.2, 1),
        (8, 0.2, 2),
        (5, 0.1, 0),
        (15, 0.1, 1),
        (5, 0.5, 2),
        (1, 0.2, 0),
    ],
)
def test_a_half_is_rounded_down_whatever_the_binary_fraction(
    number: int, fraction: float, count: int
) -> None:
    assert rounded_share(number, fraction) == count


def test_every_class_of_cifar_gives_the_same_count() -> None:
    labels = np.arange(5000) % 100
    _, validation = stratified_split(labels, 0.2, seed=0)
    assert np.bincount(labels[validation]).tolist() == [10] * 100


def test_split_is_frozen_so_that_no_library_can_change_it() -> None:
    labels = np.arange(1009) % 13
    _, validation = stratified_split(labels, 0.2, seed=0)
    digest = hashlib.sha256(validation.astype("<i8").tobytes()).hexdigest()
    assert digest == "5ea509d5319f86a1279153f5aeccd06c31ddd37e3c6cef4373c3708633aa9875"


def test_another_seed_is_another_split() -> None:
    labels = np.arange(1009) % 13
    first, second = (stratified_split(labels, 0.2, seed)[1] for seed in (0, 1))
    assert 0 < len(set(first) & set(second)) < len(first) / 2


def test_a_split_that_leaves_a_side_empty_is_refused() -> None:
    with pytest.raises(UserError, match=r"\b0\.2\b.*\b3 images\b.*\b3 classes\b"):
        stratified_split(np.array([0, 1, 2]), 0.2, seed=0)


def fraction_by_loops(labels: list[int], numerator: int, denominator: int, seed: int) -> list[int]:
    chosen = []
    for label in sorted(set(labels)):
        members = [index for index, other in enumerate(labels) if other == label]
        count = (2 * len(members) * numerator + denominator - 1) // (2 * denominator)
        order = permutation("fraction", seed, label, length=len(members)).tolist()
        chosen += [members[place] for place in order[:count]]
    return sorted(chosen)


def test_a_fraction_of_every_class_equals_plain_loops() -> None:
    labels = np.random.default_rng(1).integers(0, 7, 1013)
    assert class_fraction(labels, 0.3, 5).tolist() == fraction_by_loops(labels.tolist(), 3, 10, 5)


def test_fractions_are_nested_and_the_whole_is_everything() -> None:
    labels = np.arange(1009) % 13
    sets = [set(class_fraction(labels, part, seed=0)) for part in (0.05, 0.1, 0.3, 0.5, 1.0)]
    assert all(small < large for small, large in pairwise(sets))
    assert sets[-1] == set(range(1009))


def test_a_tenth_of_cifar_is_a_tenth_of_train_and_of_validation_in_every_class() -> None:
    labels = np.arange(5000) % 10
    train, validation = train_and_validation(labels, 0.1, 0.2, seed=0)
    assert np.bincount(labels[train]).tolist() == [40] * 10
    assert np.bincount(labels[validation]).tolist() == [10] * 10
    assert sorted([*train, *validation]) == class_fraction(labels, 0.1, seed=0).tolist()


def test_the_fraction_one_leaves_the_split_as_it_was() -> None:
    labels = np.arange(1009) % 13
    for ours, theirs in zip(
        train_and_validation(labels, 1.0, 0.2, seed=3), stratified_split(labels, 0.2, seed=3)
    ):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(("fraction", "sides"), [(0.001, "0 and 0"), (0.02, "2 and 0")])
def test_a_fraction_too_small_for_a_class_is_refused(fraction: float, sides: str) -> None:
    labels = np.array([0] * 97 + [1] * 997)
    with pytest.raises(UserError, match=rf"\b{fraction}\b.*\bclass 0\b.*\b{sides}\b"):
        train_and_validation(labels, fraction, 0.2, seed=0)
