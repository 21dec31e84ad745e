"""Conditions over seeds, sign flips and Holm, against scipy, statsmodels and plain loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats
from statsmodels.stats.multitest import multipletests

from nearsight.core import UserError
from nearsight.stats.seeds import holm, sign_flip_p, smallest_p, smallest_p_text
from nearsight.study.analyse.outcome import Outcome, by_condition, condition_text, levels_of
from nearsight.study.analyse.summary import summaries

numbers = some.floats(-3, 3).map(lambda x: round(x, 3))


def cells(levels, values):
    """One outcome per level and seed."""
    return [
        Outcome({"cutmix": level}, seed, {"min_mad": x})
        for level, row in zip(levels, values)
        for seed, x in enumerate(row)
    ]


def test_a_condition_has_mean_deviation_n_and_scipys_interval():
    values = [0.31, 0.35, 0.33, 0.4, 0.29]
    (found,) = summaries(cells([True], [values]), "min_mad")
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.mean, found.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.n, found.seeds) == (5, (0, 1, 2, 3, 4))


def test_one_seed_has_a_mean_but_no_interval():
    (found,) = summaries(cells([True], [[0.4]]), "min_mad")
    assert (found.mean, found.sd, found.low, found.high, found.n) == (0.4, None, None, None, 1)


def test_the_order_of_outcomes_does_not_matter():
    outcomes = cells([True, False], [[0.1, 0.2, 0.3], [0.4, 0.6, 0.5]])
    assert summaries(outcomes[::-1], "min_mad") == summaries(outcomes, "min_mad")
    first = summaries(outcomes, "min_mad")[0]
    assert condition_text(first.condition) == "cutmix off"


def test_absent_and_broken_numbers_are_left_out():
    outcomes = [
        Outcome({"a": 1}, 0, {"x": 1.0}),
        Outcome({"a": 1}, 1, {"x": math.nan}),
        Outcome({"a": 1}, 2, {"y": 1.0}),
        Outcome({"a": 2}, 0, {"x": math.inf}),
    ]
    assert by_condition(outcomes, "x") == {(("a", 1),): {0: 1.0}}


def test_the_same_cell_twice_is_refused():
    outcomes = cells([True], [[0.1]]) * 2
    with pytest.raises(UserError, match=r"\bseed 0\b.*\bcutmix on\b"):
        by_condition(outcomes, "min_mad")


def test_levels_come_off_before_on_small_before_large_and_names_must_agree():
    outcomes = [
        Outcome({"a": a, "b": b, "c": c}, 0, {})
        for a, b, c in [(True, 10.0, "vit"), (False, 9.0, "locat")]
    ]
    assert levels_of(outcomes) == {"a": [False, True], "b": [9.0, 10.0], "c": ["locat", "vit"]}
    with pytest.raises(UserError, match="same factors"):
        levels_of([*outcomes, Outcome({"a": True}, 0, {})])


def test_sign_flips_by_hand():
    """Of 8 choices of signs of 1, 2, 3 only +++ and --- are as far from 0."""
    assert sign_flip_p([1, 2, 3]) == 2 / 8
    assert sign_flip_p([-1, 2, 3]) == 4 / 8  # -++, +--, and the two that reach 6
    assert sign_flip_p([0.0, 0.0]) == 1.0


@settings(deadline=None)
@given(some.lists(numbers, min_size=1, max_size=7))
def test_sign_flips_equal_plain_loops(differences):
    seen = abs(math.fsum(differences))
    hits = [
        abs(math.fsum(s * x for s, x in zip(signs, differences))) >= seen - 1e-9
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert sign_flip_p(differences) == pytest.approx(sum(hits) / len(hits), abs=1e-12)


@pytest.mark.slow
@settings(deadline=None)
@given(some.lists(numbers, min_size=2, max_size=9), some.randoms())
def test_sign_flips_ignore_order_and_the_name_of_the_levels(differences, random):
    p = sign_flip_p(differences)
    assert smallest_p(len(differences)) <= p <= 1
    assert sign_flip_p([-x for x in differences]) == p
    shuffled = random.sample(differences, len(differences))
    assert sign_flip_p(shuffled) == pytest.approx(p)


def test_sign_flips_are_scipys_exact_permutation_test():
    differences = [0.3, -0.1, 0.25, 0.4, 0.05, 0.6, -0.02]
    found = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_p(differences) == pytest.approx(found.pvalue)


def test_three_seeds_of_four_pairs_have_two_to_the_twelve_patterns():
    """Every pair has the same sign: of 4096 patterns only this one and its mirror are as far."""
    pairs = [-0.2 - 0.01 * i for i in range(12)]
    assert sign_flip_p(pairs) == 2 / 4096
    assert sign_flip_p(pairs[:3]) == 0.25  # by seed alone


def test_forty_differences_are_still_exact():
    """39 of one size and sign: as far are all alike, or one turned: (1 + 40) of 2^40, two-sided."""
    assert sign_flip_p([1.0] * 40) == 2 / 2**40
    assert sign_flip_p([1.0] * 39 + [-1.0]) == pytest.approx(2 * 41 / 2**40)


def test_equal_signs_reach_the_smallest_p_and_words_say_what_it_is():
    assert sign_flip_p([0.1, 0.2, 0.7, 0.3, 0.2, 0.9]) == smallest_p(6) == 2 / 64
    assert "2/2^6 = 0.031" in smallest_p_text(6, 7)
    assert "at least 6 differences" in smallest_p_text(5, 7)
    assert "at most 40" in smallest_p_text(41, 7)
    with pytest.raises(UserError, match="1 to 40"):
        sign_flip_p([1.0] * 41)


@pytest.mark.slow
def test_holm_is_that_of_statsmodels():
    rng = np.random.default_rng(5)
    for size in (1, 2, 7, 35):
        p_values = rng.choice([*rng.random(size), 0.01, 1.0], size).tolist()  # some are equal
        expected = multipletests(p_values, method="holm")[1]
        assert holm(p_values) == pytest.approx(expected, abs=1e-12)
