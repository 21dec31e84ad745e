"""Intervals of shares and means: against scipy and statsmodels."""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from nearsight.core import UserError
from nearsight.stats import exact_share, over_seeds


@pytest.mark.parametrize(("count", "n"), [(0, 3), (3, 3), (2, 5), (1, 10)])
def test_the_share_of_seeds_has_the_exact_interval(count, n):
    found = exact_share(count, n)
    assert (found.low, found.high) == pytest.approx(proportion_confint(count, n, method="beta"))
    assert found.value == count / n
    with pytest.raises(UserError, match=f"seeds, {n}"):
        exact_share(n + 1, n)


def test_an_all_or_none_outcome_is_covered_by_the_share_and_not_by_t():
    """0.01 with probability 0.9, else 0.30: of three seeds t covers the mean in about 27 %."""
    rng, share, t = np.random.default_rng(0), 0, 0
    for _ in range(1000):
        local = rng.random(3) < 0.9
        found = over_seeds(np.where(local, 0.01, 0.30).tolist())
        t += found.low <= 0.9 * 0.01 + 0.1 * 0.30 <= found.high
        exact = exact_share(int(local.sum()), 3)
        share += exact.low <= 0.9 <= exact.high
    assert t / 1000 < 0.35
    assert share / 1000 >= 0.95
