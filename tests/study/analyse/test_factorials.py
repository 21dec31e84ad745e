"""Effects of a 2^k factorial against hand-solved numbers, plain loops and statsmodels."""

import itertools
import random

import numpy as np
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as some
from pandas import DataFrame

from nearsight.core import UserError
from nearsight.stats.estimate import over_seeds
from nearsight.study.analyse.factorials import factorial, signs
from nearsight.study.analyse.outcome import Outcome

NAMES = ("autoaugment", "cutmix", "labelsmoothing")
# Table 2 of the protocol paper: minimum MAD, one seed
TABLE2 = {
    (False, False, False): 0.316,
    (True, True, True): 0.008,
    (True, False, True): 0.210,
    (False, True, True): 0.024,
    (True, True, False): 0.009,
    (False, True, False): 0.021,
    (True, False, False): 0.254,
    (False, False, True): 0.315,
}


def eight(number, seeds=(0, 1, 2), value="min_mad"):
    """All cells; ``number(levels, seed)``."""
    return [
        Outcome(dict(zip(NAMES, levels)), seed, {value: number(levels, seed)})
        for levels in itertools.product((False, True), repeat=3)
        for seed in seeds
    ]


def noisy(seed=3, seeds=range(5)):
    rng = np.random.default_rng(seed)
    table = {
        (x, s): TABLE2[x] + rng.normal(0, 0.05) + 0.1 * s
        for s in seeds
        for x in itertools.product((False, True), repeat=3)
    }
    return eight(lambda levels, s: table[levels, s], seeds)


def test_a_two_by_two_solved_by_hand():
    """a adds 3 without b and 7 with it: 5 on average; the interaction is half of 7 - 3."""
    cells = {(False, False): 10, (True, False): 13, (False, True): 20, (True, True): 27}
    outcomes = [
        Outcome({"a": a, "b": b}, seed, {"x": x + 100.0 * seed})
        for (a, b), x in cells.items()
        for seed in (0, 1)
    ]
    found = factorial(outcomes, "x")
    assert [(e.label, e.estimate.value) for e in found.effects] == [
        ("a", 5),
        ("b", 12),
        ("a × b", 2),
    ]
    assert found.effect("a").estimate.low == 5  # the seeds' own level cancels
    assert found.effect("b", "a").per_seed == {0: 2, 1: 2}


def test_the_papers_table_as_effects():
    found = factorial(eight(lambda levels, seed: TABLE2[levels]), "min_mad")
    assert found.effect("cutmix").estimate.value == pytest.approx(-0.25825)
    assert found.effect("autoaugment").estimate.value == pytest.approx(-0.04875)
    assert found.effect("labelsmoothing").estimate.value == pytest.approx(-0.01075)
    assert found.effect("autoaugment", "cutmix").estimate.value == pytest.approx(0.03475)
    assert len(found.effects) == 7


def test_effects_equal_plain_loops():
    outcomes = noisy()
    found = factorial(outcomes, "min_mad")
    for effect in found.effects:
        for seed in range(5):
            high, low = [], []
            for outcome in outcomes:
                if outcome.seed == seed:
                    off = sum(not outcome.factors[name] for name in effect.factors)
                    (low if off % 2 else high).append(outcome.values["min_mad"])
            expected = sum(high) / 4 - sum(low) / 4
            assert effect.per_seed[seed] == pytest.approx(expected, abs=1e-12)
        assert effect.estimate == over_seeds(list(effect.per_seed.values()))


def test_effects_are_twice_the_coefficients_of_statsmodels_with_seeds_as_blocks():
    outcomes = noisy()
    rows = {name: [2 * int(o.factors[name]) - 1 for o in outcomes] for name in NAMES}
    rows |= {"seed": [o.seed for o in outcomes], "y": [o.values["min_mad"] for o in outcomes]}
    fit = smf.ols("y ~ autoaugment * cutmix * labelsmoothing + C(seed)", DataFrame(rows)).fit()
    found = factorial(outcomes, "min_mad")
    errors = []
    for effect in found.effects:
        assert effect.estimate.value == pytest.approx(2 * fit.params[":".join(effect.factors)])
        errors.append(np.var(list(effect.per_seed.values()), ddof=1) / 5)
    # the blocks' error is one for all contrasts: the mean of their own
    assert (2 * fit.bse["cutmix"]) ** 2 == pytest.approx(np.mean(errors))


def test_the_interval_of_an_effect_is_that_of_statsmodels_on_its_contrasts():
    effect = factorial(noisy(), "min_mad").effect("cutmix")
    fit = smf.ols("y ~ 1", DataFrame({"y": list(effect.per_seed.values())})).fit()
    low, high = fit.conf_int(0.05).loc["Intercept"]
    assert (effect.estimate.low, effect.estimate.high) == pytest.approx((low, high))


def test_the_order_of_outcomes_does_not_matter():
    outcomes = noisy()
    mixed = random.Random(7).sample(outcomes, len(outcomes))
    one, other = factorial(outcomes, "min_mad"), factorial(mixed, "min_mad")
    assert one.effect("cutmix") == other.effect("cutmix")
    assert one.notes == other.notes


@settings(max_examples=20, deadline=None)
@given(some.lists(some.floats(-1, 1), min_size=16, max_size=16), some.sampled_from(NAMES))
def test_swapping_the_names_of_a_factors_levels_flips_the_signs_of_its_effects(numbers, name):
    table = dict(
        zip(itertools.product(itertools.product((False, True), repeat=3), (0, 1)), numbers)
    )
    outcomes = eight(lambda levels, seed: table[levels, seed], (0, 1))
    renamed = [
        Outcome({**o.factors, name: not o.factors[name]}, o.seed, o.values) for o in outcomes
    ]
    before, after = factorial(outcomes, "min_mad"), factorial(renamed, "min_mad")
    given_levels = {n: (True, False) if n == name else (False, True) for n in NAMES}
    named = factorial(outcomes, "min_mad", given_levels)
    for effect in before.effects:
        sign = -1 if name in effect.factors else 1
        for other in (after, named):
            found = other.effect(*effect.factors).estimate.value
            assert found == pytest.approx(sign * effect.estimate.value, abs=1e-12)


def test_a_seed_that_lacks_a_cell_is_dropped_and_named():
    outcomes = noisy(seeds=range(4))
    gone = [
        o for o in outcomes if o.seed == 2 and o.factors == dict(zip(NAMES, (True, False, True)))
    ]
    found = factorial([o for o in outcomes if o not in gone], "min_mad")
    kept = factorial([o for o in outcomes if o.seed != 2], "min_mad")
    assert found.seeds == (0, 1, 3)
    assert found.dropped == {2: ("autoaugment on, cutmix off, labelsmoothing on",)}
    assert found.effects == kept.effects
    assert any("Seed 2 is left out: it lacks autoaugment on" in note for note in found.notes)


def test_three_seeds_have_an_exact_p_of_the_pairs_within_them():
    """CutMix lowers all 12 pairs: of 2^12 patterns of signs two are as far from 0."""
    few = factorial(noisy(seeds=range(3)), "min_mad")
    assert few.effect("cutmix").p == 2 / 4096
    assert few.effect("cutmix").holm_p == pytest.approx(3 * 2 / 4096)
    assert few.effect("autoaugment", "cutmix").p is None  # three seeds, one difference each
    assert any("the 3 contrasts" in note for note in few.notes)
    assert any("2/2^12 = 0.00049 (0.0015 after Holm's correction)" in note for note in few.notes)
    many = factorial(noisy(seeds=range(6)), "min_mad")
    assert many.effect("cutmix").p == 2 / 2**24
    assert many.effect("autoaugment", "cutmix").p >= 2 / 64


def test_p_is_the_share_of_flipped_pairs_by_plain_loops():
    outcomes = noisy(seeds=range(2))
    pairs = [
        on.values["min_mad"] - off.values["min_mad"]
        for on in outcomes
        for off in outcomes
        if on.seed == off.seed
        and on.factors["labelsmoothing"]
        and on.factors | {"labelsmoothing": False} == off.factors
    ]
    signs = list(itertools.product((1, -1), repeat=8))
    far = sum(
        abs(sum(s * x for s, x in zip(row, pairs))) >= abs(sum(pairs)) - 1e-12 for row in signs
    )
    found = factorial(outcomes, "min_mad").effect("labelsmoothing").p
    assert (len(pairs), found) == (8, far / 256)


def test_one_seed_has_contrasts_but_no_interval():
    found = factorial(eight(lambda levels, seed: TABLE2[levels], seeds=(0,)), "min_mad")
    assert found.effect("cutmix").estimate is None
    assert found.effect("cutmix").per_seed[0] == pytest.approx(-0.25825)


def test_what_is_no_factorial_is_refused():
    three = [Outcome({"a": a}, 0, {"x": 1.0}) for a in (1, 2, 3)]
    with pytest.raises(UserError, match=r"^a .*\b1, 2, 3\b"):
        factorial(three, "x")
    with pytest.raises(UserError, match=r"\blabelsmoothing\b"):
        factorial(noisy(), "min_mad", {"cutmix": (False, True), "autoaugment": (False, True)})
    with pytest.raises(UserError, match="'mixup'"):
        factorial(noisy(), "min_mad", {"mixup": (False, True)})
    with pytest.raises(UserError, match=r"\bfactor\b.*\btwo levels\b"):
        factorial([Outcome({"a": 1}, 0, {"x": 1.0})], "x")


def test_signs_of_an_interaction_multiply():
    levels = {"a": ("no", "yes"), "b": (0, 1)}
    assert signs(["a", "b"], levels) == {
        ("no", 0): 1, ("no", 1): -1, ("yes", 0): -1, ("yes", 1): 1,
    }  # fmt: skip
