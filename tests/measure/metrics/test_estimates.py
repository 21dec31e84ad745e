"""Intervals over images against statsmodels, scipy and plain loops."""

import pytest
import torch
from measure import reference_attention as slow
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from nearsight.measure.metrics.estimates import bootstrap_interval, resample_counts
from nearsight.stats import normal_interval


def sample(images, heads):
    torch.manual_seed(11)
    return torch.rand(images, heads, dtype=torch.float64) ** 2


def test_the_interval_of_a_mean_is_that_of_statsmodels():
    values = sample(41, 3)
    mean, low, high, sd = normal_interval(values)
    for head in range(3):
        expected = DescrStatsW(values[:, head].numpy()).zconfint_mean(alpha=0.05)
        assert (low[head].item(), high[head].item()) == pytest.approx(expected, abs=1e-12)
        assert sd[head].item() == pytest.approx(stats.tstd(values[:, head].numpy()), abs=1e-12)
    assert torch.allclose(mean, (low + high) / 2)


def test_the_bootstrap_interval_of_the_minimum_equals_plain_loops():
    values = sample(13, 5)
    values[:, 3] = values[:, 1].flip(0) + 1e-3  # two heads compete for the minimum
    counts = resample_counts(13, num_resamples=29)
    value, low, high = bootstrap_interval(values, counts, lambda means: means.amin(-1))
    assert value == pytest.approx(min(values.mean(0).tolist()), abs=1e-15)
    expected = slow.bootstrap_minimum(values.tolist(), counts.tolist())
    assert (low, high) == pytest.approx(expected, abs=1e-12)


def test_every_resample_draws_as_many_images_as_there_are():
    counts = resample_counts(17, num_resamples=23)
    assert counts.sum(1).tolist() == [17] * 23
    assert len(counts.unique(dim=0)) == 23


def test_resampling_draws_every_image_equally_often():
    totals = resample_counts(31, num_resamples=1000).sum(0).numpy()
    assert stats.chisquare(totals).pvalue > 0.001


def test_one_image_has_no_interval():
    with pytest.raises(ValueError, match="at least 2 images"):
        normal_interval(torch.zeros(1, 3))
