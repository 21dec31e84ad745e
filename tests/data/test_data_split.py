"""The stratified split: plain loops, exact counts, frozen indices."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from nearsight.data.draws import permutation
from nearsight.data.split import held_out, stratified_split


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
    assert held_out(number, fraction) == count


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
    with pytest.raises(ValueError, match="add images"):
        stratified_split(np.array([0, 1, 2]), 0.2, seed=0)
