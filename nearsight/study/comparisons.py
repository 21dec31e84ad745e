"""Statistics of claims: how a number differs between settings, per seed.

Each takes outcomes that differ in nothing but what is compared, and gives no part if a side of the
comparison is not among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nearsight.report.estimate import paired
from nearsight.study.claim import Part, Region, Statistic
from nearsight.study.factorial import factorial
from nearsight.study.outcome import Outcome
from nearsight.study.recipe import Level, level_text

Side = Mapping[str, Level | None]  # settings of a side of a comparison; None: left to the model
EIGHT = ("autoaugment", "cutmix", "labelsmoothing")  # the factors of the protocol paper


class AmbiguousError(ValueError):
    """Two outcomes of one seed fit the same side of a comparison."""


def matching(outcomes: Sequence[Outcome], side: Side, value: str) -> dict[int, Outcome]:
    """By seed, the outcome that has these settings and the number."""
    found: dict[int, Outcome] = {}
    for outcome in outcomes:
        fits = all(outcome.settings.get(name) == level for name, level in side.items())
        if not fits or not math.isfinite(outcome.values.get(value, math.nan)):
            continue
        if outcome.seed in found:
            told = ", ".join(
                f"{name} {level_text(level)}" for name, level in side.items() if level is not None
            )
            raise AmbiguousError(f"two cells of seed {outcome.seed} have {told}")
        found[outcome.seed] = outcome
    return found


def _numbers(found: Mapping[int, Outcome], value: str) -> dict[int, float]:
    return {seed: outcome.values[value] for seed, outcome in found.items()}


def level(value: str, side: Side, region: Region, label: str) -> Statistic:
    """The number itself under these settings."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        found = matching(outcomes, side, value)
        return [Part(label, _numbers(found, value), region, tuple(found.values()))] * bool(found)

    return statistic


def difference(value: str, one: Side, other: Side, region: Region, label: str) -> Statistic:
    """one - other, paired by seed."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        sides = [matching(outcomes, side, value) for side in (one, other)]
        if not all(sides):
            return []
        per_seed = paired(*(_numbers(side, value) for side in sides))
        return [Part(label, per_seed, region, tuple(x for s in sides for x in s.values()))]

    return statistic


def parts(*statistics: Statistic) -> Statistic:
    """All parts of several statistics: the claim needs every one."""
    return lambda outcomes: [part for each in statistics for part in each(outcomes)]


def flags(autoaugment: bool, cutmix: bool, labelsmoothing: bool) -> dict[str, Level]:
    """One of the eight conditions."""
    return dict(zip(EIGHT, (autoaugment, cutmix, labelsmoothing)))


def main_effect(value: str, factor: str, region: Region, label: str) -> Statistic:
    """The main effect of one of the three parts of Modern, over all eight conditions."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        used = [x for x in outcomes if value in x.values and all(n in x.settings for n in EIGHT)]
        cells = [Outcome({n: x.settings[n] for n in EIGHT}, x.seed, x.values) for x in used]
        if len({x.condition for x in cells}) < 2 ** len(EIGHT):
            return []
        try:
            effect = factorial(cells, value, dict.fromkeys(EIGHT, (False, True))).effect(factor)
        except ValueError as error:
            raise AmbiguousError(str(error)) from error
        return [Part(label, effect.per_seed, region, tuple(used))]

    return statistic


def separation(value: str, factor: str, region: Region, label: str) -> Statistic:
    """The largest number with a part of Modern minus the smallest without, of eight conditions."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        sides: dict[bool, list[dict[int, Outcome]]] = {True: [], False: []}
        for places in np.ndindex(2, 2, 2):
            side = flags(*map(bool, places))
            sides[bool(side[factor])].append(matching(outcomes, side, value))
        cells = sides[True] + sides[False]
        if not all(cells):
            return []
        shared = sorted(set.intersection(*map(set, cells)))
        per_seed = {
            seed: max(cell[seed].values[value] for cell in sides[True])
            - min(cell[seed].values[value] for cell in sides[False])
            for seed in shared
        }
        return [Part(label, per_seed, region, tuple(x for cell in cells for x in cell.values()))]

    return statistic


def slope(value: str, side: Side, along: str, region: Region, label: str) -> Statistic:
    """Least-squares slope of the number over a numeric setting, of seeds that have every level."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        cells = {x: matching(outcomes, {**side, along: x}, value) for x in _levels(outcomes, along)}
        return _slope_part({x: cell for x, cell in cells.items() if cell}, value, region, label)

    return statistic


def _slope_part(
    cells: Mapping[float, Mapping[int, Outcome]], value: str, region: Region, label: str
) -> list[Part]:
    if len(cells) < 2:
        return []
    shared = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    per_seed = {
        seed: _slope([(x, cell[seed].values[value]) for x, cell in cells.items()])
        for seed in shared
    }
    return [Part(label, per_seed, region, tuple(x for c in cells.values() for x in c.values()))]


def gain_by_data(value: str, one: Side, plain: Side, region: Region, label: str) -> Statistic:
    """How much the relative gain, 100 (one - plain) / plain, grows per tenfold less data."""

    def statistic(outcomes: Sequence[Outcome]) -> list[Part]:
        gains: dict[float, dict[int, Outcome]] = {}
        used: list[Outcome] = []
        for fraction in _levels(outcomes, "data.fraction"):
            a, b = (
                matching(outcomes, {**side, "data.fraction": fraction}, value)
                for side in (one, plain)
            )
            if not a or not b:
                continue
            used += [*a.values(), *b.values()]
            gains[-math.log10(fraction)] = {
                seed: Outcome({}, seed, {value: 100 * (a[seed].values[value] / below - 1)})
                for seed in a.keys() & b.keys()
                if (below := b[seed].values[value]) > 0
            }
        found = _slope_part(gains, value, region, label)
        return [Part(part.label, part.per_seed, part.region, tuple(used)) for part in found]

    return statistic


def _levels(outcomes: Sequence[Outcome], setting: str) -> list[float]:
    return sorted({float(x.settings[setting]) for x in outcomes if setting in x.settings})


def _slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))
