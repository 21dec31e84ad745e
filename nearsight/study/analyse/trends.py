"""Compute trends over a grid of two numeric factors: the slope of each, and their interaction.

For each seed, a constant, both centred factors and their product are fitted to the number by least
squares. A slope is per unit of its factor, at the middle of the other factor. The interaction is
the change of one slope per unit of the other factor. Intervals are Student's, over the seeds that
have every cell of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from nearsight.stats import Estimate, over_seeds
from nearsight.study.analyse.outcome import Outcome


@dataclass(frozen=True)
class GridTrends:
    """The trends of a number over two factors."""

    first: str  # the names of the factors
    second: str
    seeds: tuple[int, ...]  # that have every cell
    per_seed: tuple[tuple[float, float, float], ...]  # slope, slope, interaction

    @property
    def estimates(self) -> tuple[Estimate, Estimate, Estimate] | None:
        """The slope of each factor and their interaction; None with fewer than two seeds."""
        if len(self.seeds) < 2:
            return None
        one, other, both = (over_seeds(list(x)) for x in zip(*self.per_seed))
        return one, other, both


def grid_trends(
    outcomes: Sequence[Outcome],
    value: str,
    first: str,
    second: str,
    levels: tuple[Sequence[float], Sequence[float]],
) -> GridTrends:
    """Compute the trends of a number over a grid.

    Args:
        outcomes: The cells of a study; those that are not on the grid are left out.
        value: The name of the number.
        first: The name of the first factor.
        second: The name of the second factor.
        levels: The levels of both factors, which form the grid.
    """
    cells = list(product(*levels))
    found = {
        (float(x.factors[first]), float(x.factors[second]), x.seed): x.values[value]
        for x in outcomes
        if value in x.values
    }
    seeds = tuple(
        seed
        for seed in sorted({x.seed for x in outcomes})
        if all((one, other, seed) in found for one, other in cells)
    )
    x, y = (np.array(column, float) for column in zip(*cells))
    x, y = x - x.mean(), y - y.mean()
    design = np.stack([np.ones(len(cells)), x, y, x * y], axis=1)
    fits = []
    for seed in seeds:
        numbers = np.array([found[one, other, seed] for one, other in cells])
        _, one, other, both = np.linalg.lstsq(design, numbers, rcond=None)[0].tolist()
        fits.append((one, other, both))
    return GridTrends(first, second, seeds, tuple(fits))
