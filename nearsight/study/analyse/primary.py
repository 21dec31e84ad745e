"""Compute the primary contrast of a study, the comparison that was named before it ran.

The primary contrast has a 95 % interval of its own. Every other interval of the study is
simultaneous (effects.py), so that among many comparisons none stands out by chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearsight.stats import FEWEST_FOR_P, MOST_FOR_P, Estimate, over_seeds, sign_flip_p
from nearsight.study.analyse.loaded import LoadedStudy
from nearsight.study.analyse.matched import at_matched_epoch
from nearsight.study.analyse.outcome import Factors, Outcome
from nearsight.study.analyse.results import courses, outcomes
from nearsight.study.design import Level, PrimaryContrast


@dataclass(frozen=True)
class PrimaryResult:
    """The primary contrast, computed from the finished cells of a study."""

    contrast: PrimaryContrast
    per_seed: Mapping[int, float]
    num_pairs: int  # differences between two runs, over all seeds
    estimate: Estimate | None  # None with fewer than two seeds
    p: float | None  # of the sign-flip test; None if there are too few or too many pairs
    at_steps: tuple[int, Estimate | None] | None  # at the last epoch that all runs reached


def primary_result(study: LoadedStudy) -> PrimaryResult | None:
    """Compute the primary contrast of a study; return None if none was named before it ran."""
    named = study.record.primary
    if named is None:
        return None
    contrast = PrimaryContrast(named.value, named.high, named.low)
    differences = paired_differences(outcomes(study), contrast)
    every = [x for of_seed in differences.values() for x in of_seed]
    per_seed = _means(differences)
    epoch, at_once = at_matched_epoch(courses(study), contrast.value)
    steps = None
    if epoch is not None:
        steps = epoch, _estimate(_means(paired_differences(at_once, contrast)))
    asks = FEWEST_FOR_P <= len(every) <= MOST_FOR_P
    p = sign_flip_p(every) if asks else None
    return PrimaryResult(contrast, per_seed, len(every), _estimate(per_seed), p, steps)


def paired_differences(
    found: Sequence[Outcome], contrast: PrimaryContrast
) -> dict[int, list[float]]:
    """Return high minus low for every pair of runs that differ in nothing else, by seed.

    A seed is left out if it lacks a run of a pair that other seeds have.
    """
    sides = [_side(found, contrast.value, levels) for levels in (contrast.high, contrast.low)]
    high, low = sides
    shared = {rest for rest, _ in high} & {rest for rest, _ in low}
    seeds = sorted({seed for _, seed in high} | {seed for _, seed in low})
    return {
        seed: [high[rest, seed] - low[rest, seed] for rest in sorted(shared)]
        for seed in seeds
        if shared and all((rest, seed) in side for rest in shared for side in sides)
    }


def _side(
    found: Sequence[Outcome], value: str, levels: Mapping[str, Level]
) -> dict[tuple[Factors, int], float]:
    """Return the number of each run with these levels, by its other levels and seed."""
    return {
        (tuple(x for x in outcome.condition if x[0] not in levels), outcome.seed): number
        for outcome in found
        if levels.items() <= outcome.factors.items()
        and math.isfinite(number := outcome.values.get(value, math.nan))
    }


def _means(differences: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {seed: math.fsum(x) / len(x) for seed, x in differences.items()}


def _estimate(per_seed: Mapping[int, float]) -> Estimate | None:
    return over_seeds(list(per_seed.values())) if len(per_seed) > 1 else None
