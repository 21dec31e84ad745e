"""The most local head between conditions: the bootstrap against plain loops and known limits."""

import numpy as np
import pytest
from scipy import stats

from nearsight.measure.metrics.estimates import resample_counts
from nearsight.stats.estimate import over_seeds
from nearsight.study.analyse.extremes import (
    extreme_contrast,
    extreme_difference,
    extreme_effects,
    mixture_interval,
)
from nearsight.study.analyse.factorials import factorial, signs
from nearsight.study.analyse.outcome import Outcome

IMAGES, HEADS = 17, 5


def condition(rng, seeds=3, shift=0.0, heads=HEADS, noise=0.1):
    """By seed: MAD per image and head, images that differ, two heads that compete."""
    found = {}
    for seed in range(seeds):
        values = 0.3 + shift + noise * rng.standard_normal((IMAGES, heads))
        values[:, 1] = values[:, 0].mean() + (values[:, 1] - values[:, 1].mean())
        found[seed] = values
    return found


def test_the_difference_equals_plain_loops_with_the_minimum_recomputed():
    rng = np.random.default_rng(0)
    one, other = condition(rng), condition(rng, shift=0.05, heads=7)
    found = extreme_difference(one, other, num_resamples=29)
    counts = resample_counts(IMAGES, 29).tolist()

    def minimum(values, weights):
        total = sum(weights)
        heads = range(len(values[0]))
        return min(sum(w * row[h] for w, row in zip(weights, values)) / total for h in heads)

    per_seed = [minimum(one[s], [1] * IMAGES) - minimum(other[s], [1] * IMAGES) for s in range(3)]
    resampled = [
        sum(minimum(one[s], row) - minimum(other[s], row) for s in range(3)) / 3 for row in counts
    ]
    assert found.over_seeds.value == pytest.approx(sum(per_seed) / 3)
    expected = over_seeds(per_seed)
    assert (found.over_seeds.low, found.over_seeds.high) == pytest.approx(
        (expected.low, expected.high)
    )
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert (found.over_images.low, found.over_images.high) == pytest.approx((low, high))
    assert (found.over_images.n, found.over_seeds.n) == (IMAGES, 3)


def test_both_is_wider_than_each():
    rng = np.random.default_rng(1)
    found = extreme_difference(condition(rng, seeds=5), condition(rng, seeds=5), num_resamples=199)
    widths = [x.high - x.low for x in (found.over_both, found.over_seeds, found.over_images)]
    assert widths[0] > widths[2]
    assert widths[0] > 0.95 * widths[1]  # resamples may also have smaller errors than the data


def test_images_that_do_not_matter_leave_the_t_interval_over_seeds():
    one = {seed: np.full((IMAGES, HEADS), x) for seed, x in enumerate([0.1, 0.25, 0.3])}
    other = {seed: np.full((IMAGES, HEADS), 0.4) for seed in range(3)}
    found = extreme_difference(one, other, num_resamples=31)
    both, seeds = found.over_both, found.over_seeds
    assert (both.low, both.high) == pytest.approx((seeds.low, seeds.high), abs=1e-9)
    assert found.over_images.low == pytest.approx(found.over_images.high)


def test_seeds_that_agree_leave_the_percentiles_over_images():
    rng = np.random.default_rng(2)
    run, plain = condition(rng, seeds=1)[0], condition(rng, seeds=1)[0]
    found = extreme_difference(dict.fromkeys(range(3), run), dict.fromkeys(range(3), plain), 101)
    both, images = found.over_both, found.over_images
    assert (both.low, both.high) == pytest.approx((images.low, images.high))
    assert both.low < both.high


def test_exchanging_the_conditions_flips_the_signs():
    rng = np.random.default_rng(3)
    one, other = condition(rng), condition(rng, shift=-0.1)
    found = extreme_difference(one, other, 53).over_both
    back = extreme_difference(other, one, 53).over_both
    assert (found.value, found.low, found.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )


def test_an_effect_of_a_factorial_is_a_weighted_sum_of_minima():
    rng = np.random.default_rng(4)
    cells = [condition(rng, shift=0.1 * i) for i in range(4)]
    found = extreme_contrast(list(zip((-0.5, -0.5, 0.5, 0.5), cells)), num_resamples=11)
    low = [[cell[seed].mean(0).min() for cell in cells] for seed in range(3)]
    expected = np.mean([(c + d) / 2 - (a + b) / 2 for a, b, c, d in low])
    assert found.over_both.value == pytest.approx(expected)


def test_effects_of_a_factorial_are_those_of_the_runs_own_minima():
    rng = np.random.default_rng(8)
    levels = {"a": (False, True), "b": ("x", "y")}
    cells = {cell: condition(rng, shift=0.1 * i) for i, cell in enumerate(signs(["a"], levels))}
    outcomes = [
        Outcome(dict(zip(levels, cell)), seed, {"min_mad": float(values.mean(0).min())})
        for cell, runs in cells.items()
        for seed, values in runs.items()
    ]
    plain = factorial(outcomes, "min_mad", levels)
    found = extreme_effects(cells, levels, num_resamples=37)
    assert list(found) == [("a",), ("b",), ("a", "b")]
    for names, contrast in found.items():
        expected = plain.effect(*names).estimate
        assert contrast.over_seeds.low == pytest.approx(expected.low)
        assert contrast.over_both.value == pytest.approx(expected.value)
    alone = extreme_contrast([(2 * s / 4, cells[c]) for c, s in signs(["b"], levels).items()], 37)
    assert found["b",].over_both.high == pytest.approx(alone.over_both.high)


def test_only_shared_seeds_count_and_one_seed_has_no_interval_over_seeds():
    rng = np.random.default_rng(5)
    one, other = condition(rng), condition(rng)
    del one[0], other[2]
    found = extreme_difference(one, other, 13)
    assert found.over_both is None
    assert found.over_seeds is None
    expected = one[1].mean(0).min() - other[1].mean(0).min()
    assert found.over_images.value == pytest.approx(expected)
    with pytest.raises(ValueError, match="a seed that every condition has"):
        extreme_difference({0: one[1]}, {1: one[1]})
    with pytest.raises(ValueError, match="got 16 and 17 images"):
        extreme_difference({1: one[1][1:]}, {1: one[1]})


def test_the_mixture_covers_the_truth_where_resampled_seeds_do_not():
    """The truth is 0; three seeds, images that all seeds share."""
    rng, hits, hits_by_resampling = np.random.default_rng(6), 0, 0
    for _ in range(200):
        seeds, shared = rng.normal(0, 1, (3, 1)), rng.normal(0, 0.1)
        images = rng.normal(shared, 0.1, 41)
        low, high = mixture_interval(seeds + images)
        hits += low <= 0 <= high
        drawn = seeds[rng.integers(0, 3, (3, 41)), 0].mean(0) + images
        low, high = np.quantile(drawn, [0.025, 0.975])
        hits_by_resampling += low <= 0 <= high
    assert stats.binomtest(hits, 200, 0.95).pvalue > 0.001
    assert stats.binomtest(hits_by_resampling, 200, 0.95).pvalue < 0.001
