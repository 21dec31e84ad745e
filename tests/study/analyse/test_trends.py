"""Slopes and interaction over a grid, against a surface that is known."""

from __future__ import annotations

import pytest

from nearsight.study.analyse.outcome import Outcome
from nearsight.study.analyse.trends import grid_trends

X, Y = (0.5, 1.0, 2.0), (1.0, 2.0, 3.0)
MIDDLE = sum(X) / 3, 2.0


def cells(seed: int, slope: float, other: float, both: float, without: int = 0) -> list[Outcome]:
    """Cells on a surface that is known, the last ones left out."""
    found = []
    for x in X:
        for y in Y:
            dx, dy = x - MIDDLE[0], y - MIDDLE[1]
            value = 0.3 + seed + slope * dx + other * dy + both * dx * dy
            found.append(Outcome({"x": x, "y": y}, seed, {"accuracy": value}))
    return found[: len(found) - without]


def test_a_known_surface_is_found_and_seeds_are_blocks() -> None:
    found = cells(0, 0.2, -0.1, 0.05) + cells(1, 0.4, -0.1, 0.15)
    plain = Outcome({"x": 1.0, "y": 0.0}, 0, {"accuracy": 99.0})  # not on the grid
    trends = grid_trends([*found, plain], "accuracy", "x", "y", (X, Y))
    assert trends.seeds == (0, 1)
    assert trends.per_seed[0] == pytest.approx((0.2, -0.1, 0.05))
    assert trends.estimates is not None
    one, other, both = trends.estimates
    assert (one.value, other.value, both.value) == pytest.approx((0.3, -0.1, 0.1))
    assert one.high - one.value == pytest.approx(12.706 * 0.1, rel=1e-4)  # t of one degree


def test_a_seed_that_lacks_a_cell_is_left_out() -> None:
    trends = grid_trends(
        cells(0, 0.2, 0.1, 0.0) + cells(1, 0.2, 0.1, 0.0, without=1), "accuracy", "x", "y", (X, Y)
    )
    assert trends.seeds == (0,)
    assert trends.estimates is None
