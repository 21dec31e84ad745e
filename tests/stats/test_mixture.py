"""Contrasts over seeds and images: against plain loops and known limits."""

import numpy as np
import pytest
from scipy import stats

from nearsight.stats import image_contrasts, mixture_interval, over_seeds

IMAGES = 17


def runs(rng, seeds=3, shift=0.0):
    return {seed: 0.3 + shift + 0.1 * rng.standard_normal(IMAGES) for seed in range(seeds)}


def difference(one, other, num_resamples=199):
    return image_contrasts([one, other], [(1, -1)], num_resamples)[0]


def test_a_difference_equals_plain_loops_over_resampled_images():
    rng = np.random.default_rng(0)
    one, other = runs(rng), runs(rng, shift=0.05)
    found = difference(one, other, 29)
    per_seed = [one[s].mean() - other[s].mean() for s in range(3)]
    drawn = np.random.RandomState(0).randint(0, IMAGES, (29, IMAGES))
    resampled = [
        sum(float(one[s][i] - other[s][i]) for s in range(3) for i in row) / 3 / IMAGES
        for row in drawn
    ]
    assert (found.over_images.low, found.over_images.high) == pytest.approx(
        tuple(np.quantile(resampled, [0.025, 0.975]))
    )
    expected = over_seeds(per_seed)
    assert (found.over_seeds.low, found.over_seeds.high) == pytest.approx(
        (expected.low, expected.high)
    )
    assert (found.over_images.n, found.over_both.n) == (IMAGES, 3)


def test_images_that_do_not_matter_leave_the_t_interval_over_seeds():
    one = {seed: np.full(IMAGES, x) for seed, x in enumerate([0.1, 0.25, 0.3])}
    other = {seed: np.full(IMAGES, 0.4) for seed in range(3)}
    found = difference(one, other, 31)
    both, seeds = found.over_both, found.over_seeds
    assert (both.low, both.high) == pytest.approx((seeds.low, seeds.high), abs=1e-9)
    assert found.over_images.low == pytest.approx(found.over_images.high)


def test_seeds_that_agree_leave_the_percentiles_over_images():
    rng = np.random.default_rng(2)
    one, other = runs(rng, 1)[0], runs(rng, 1)[0]
    found = difference(dict.fromkeys(range(3), one), dict.fromkeys(range(3), other), 101)
    both, images = found.over_both, found.over_images
    assert (both.low, both.high) == pytest.approx((images.low, images.high))
    assert both.low < both.high


def test_accuracy_over_images_is_wider_than_over_seeds_that_share_them():
    """Three runs with nearly the same answers: seeds say nothing of other test images."""
    rng = np.random.default_rng(3)
    hard = rng.random(1000)
    one = {seed: (hard < 0.6 + 1e-3 * seed).astype(float) for seed in range(3)}
    other = {seed: (rng.permutation(hard) < 0.6).astype(float) for seed in range(3)}
    found = difference(one, other, 400)
    widths = [x.high - x.low for x in (found.over_both, found.over_seeds)]
    assert widths[0] > 2 * widths[1]


def test_only_shared_seeds_count_and_one_seed_has_no_interval_over_seeds():
    rng = np.random.default_rng(5)
    one, other = runs(rng), runs(rng)
    del one[0], other[2]
    found = difference(one, other, 13)
    assert found.over_both is None
    assert found.over_seeds is None
    assert found.over_images.value == pytest.approx(one[1].mean() - other[1].mean())
    with pytest.raises(ValueError, match="a seed that every condition has"):
        difference({0: one[1]}, {1: one[1]})
    with pytest.raises(ValueError, match="got 16 and 17 images"):
        difference({1: one[1][1:]}, {1: one[1]})


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
