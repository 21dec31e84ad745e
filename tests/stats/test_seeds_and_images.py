"""Contrasts over seeds and images: against plain loops and known limits."""

import numpy as np
import pytest
from scipy import stats

from nearsight.core import UserError
from nearsight.stats import image_contrasts, over_seeds
from nearsight.stats.seeds_and_images import crossed_half_width

IMAGES = 17


def runs(rng, seeds=3, shift=0.0):
    return {seed: 0.3 + shift + 0.1 * rng.standard_normal(IMAGES) for seed in range(seeds)}


def difference(one, other):
    return image_contrasts([one, other], [(1, -1)])[0]


def test_a_difference_equals_plain_loops_over_seeds_and_images():
    """The variance components of a two-way table, written out."""
    rng = np.random.default_rng(0)
    one, other = runs(rng), runs(rng, shift=0.05)
    found = difference(one, other)
    table = [[float(one[s][i] - other[s][i]) for i in range(IMAGES)] for s in range(3)]
    mean = sum(map(sum, table)) / 3 / IMAGES
    rows = [sum(row) / IMAGES for row in table]
    columns = [sum(table[s][i] for s in range(3)) / 3 for i in range(IMAGES)]
    of_seeds = IMAGES * sum((x - mean) ** 2 for x in rows) / 2
    of_images = 3 * sum((x - mean) ** 2 for x in columns) / (IMAGES - 1)
    rest = sum(
        (table[s][i] - rows[s] - columns[i] + mean) ** 2 for s in range(3) for i in range(IMAGES)
    ) / (2 * (IMAGES - 1))
    quantiles = stats.t.ppf(0.975, [2, IMAGES - 1])
    half = np.sqrt(
        (quantiles[0] ** 2 * of_seeds + quantiles[1] ** 2 * max(of_images - rest, 0)) / 3 / IMAGES
    )
    both = found.over_both
    assert (both.low, both.high) == pytest.approx((mean - half, mean + half))
    expected = over_seeds(rows)
    assert (found.over_seeds.low, found.over_seeds.high) == pytest.approx(
        (expected.low, expected.high)
    )
    expected = over_seeds(columns)  # the same t-interval, over images
    assert (found.over_images.low, found.over_images.high) == pytest.approx(
        (expected.low, expected.high)
    )
    assert (found.over_images.n, both.n) == (IMAGES, 3)


def test_images_that_do_not_matter_leave_the_t_interval_over_seeds():
    one = {seed: np.full(IMAGES, x) for seed, x in enumerate([0.1, 0.25, 0.3])}
    other = {seed: np.full(IMAGES, 0.4) for seed in range(3)}
    found = difference(one, other)
    both, seeds = found.over_both, found.over_seeds
    assert (both.low, both.high) == pytest.approx((seeds.low, seeds.high), abs=1e-9)
    assert found.over_images.low == pytest.approx(found.over_images.high)


def test_seeds_that_agree_leave_the_interval_over_images():
    rng = np.random.default_rng(2)
    one, other = runs(rng, 1)[0], runs(rng, 1)[0]
    found = difference(dict.fromkeys(range(3), one), dict.fromkeys(range(3), other))
    both, images = found.over_both, found.over_images
    assert (both.low, both.high) == pytest.approx((images.low, images.high))
    assert both.low < both.high


def test_accuracy_over_images_is_wider_than_over_seeds_that_share_them():
    """Three runs with nearly the same answers: seeds say nothing of other test images."""
    rng = np.random.default_rng(3)
    hard = rng.random(1000)
    one = {seed: (hard < 0.6 + 1e-3 * seed).astype(float) for seed in range(3)}
    other = {seed: (rng.permutation(hard) < 0.6).astype(float) for seed in range(3)}
    found = difference(one, other)
    widths = [x.high - x.low for x in (found.over_both, found.over_seeds)]
    assert widths[0] > 2 * widths[1]


def test_only_shared_seeds_count_and_one_seed_has_no_interval_over_seeds():
    rng = np.random.default_rng(5)
    one, other = runs(rng), runs(rng)
    del one[0], other[2]
    found = difference(one, other)
    assert found.over_both is None
    assert found.over_seeds is None
    assert found.over_images.value == pytest.approx(one[1].mean() - other[1].mean())
    with pytest.raises(UserError, match=r"\bseed\b"):
        difference({0: one[1]}, {1: one[1]})
    with pytest.raises(UserError, match=r"\b16 and 17 images\b"):
        difference({1: one[1][1:]}, {1: one[1]})


def covered(level, num_seeds=3, trials=300):
    """How often the interval holds the truth, 0; seeds, images and single answers vary."""
    rng, hits = np.random.default_rng(6), 0
    for _ in range(trials):
        of_seeds, of_images = rng.normal(0, 0.1, (num_seeds, 1)), rng.normal(0, 1, 101)
        values = of_seeds + of_images + rng.normal(0, 1, (num_seeds, 101))
        hits += abs(values.mean()) <= crossed_half_width(values, level)
    return hits


def test_seeds_and_images_cover_the_truth_as_often_as_they_say():
    """A bootstrap over images covered 99.4 to 100 %: it counted single answers twice."""
    assert 0.93 * 300 <= covered(0.95, 5) <= 0.98 * 300
    assert stats.binomtest(covered(0.8, 5), 300, 0.8).pvalue > 0.001
    assert covered(0.95) >= 0.93 * 300


def test_a_higher_level_is_wider():
    rng = np.random.default_rng(7)
    one, other = runs(rng), runs(rng)
    (usual,) = image_contrasts([one, other], [(1, -1)])
    (wide,) = image_contrasts([one, other], [(1, -1)], level=0.999)
    for name in ("over_images", "over_seeds", "over_both"):
        assert getattr(wide, name).low < getattr(usual, name).low
