"""Intervals over images against statsmodels and scipy."""

import pytest
import torch
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from nearsight.core import UserError
from nearsight.stats import t_interval


def sample(images, heads):
    torch.manual_seed(11)
    return torch.rand(images, heads, dtype=torch.float64) ** 2


def test_the_interval_of_a_mean_is_that_of_statsmodels():
    values = sample(41, 3)
    mean, low, high, sd = t_interval(values)
    for head in range(3):
        expected = DescrStatsW(values[:, head].numpy()).tconfint_mean(alpha=0.05)
        assert (low[head].item(), high[head].item()) == pytest.approx(expected, abs=1e-12)
        assert sd[head].item() == pytest.approx(stats.tstd(values[:, head].numpy()), abs=1e-12)
    assert torch.allclose(mean, (low + high) / 2)


def test_one_image_has_no_interval():
    with pytest.raises(UserError, match=r"\b2 images\b.*\b1$"):
        t_interval(torch.zeros(1, 3))
