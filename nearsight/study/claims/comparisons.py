"""Make the statistics of claims: how a number differs between settings, for each seed.

A statistic is a function of outcomes that differ only in the settings that are compared. It returns
no part if one side of the comparison is not among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from nearsight.protocol import CutMix, optional_parts
from nearsight.stats import paired_differences
from nearsight.study.analyse import Outcome, factorial
from nearsight.study.claims.claim import ClaimPart, Region, Statistic, Unit
from nearsight.study.design import Level, level_text

# The settings of one side of a comparison; None means that the model decides.
Side = Mapping[str, Level | None]
EIGHT = ("autoaugment", "cutmix", "labelsmoothing")  # the factors of the protocol paper
COUNTED = (
    "autoaugment",
    "colorjitter",
    "cutmix",
)  # parts of a protocol that the factors cover


class AmbiguousError(ValueError):
    """Two outcomes of one seed fit the same side of a comparison."""


def find_matching(outcomes: Sequence[Outcome], side: Side, value: str) -> dict[int, Outcome]:
    """Return, by seed, the outcome that has these settings and the number.

    Raises:
        AmbiguousError: If there are two such outcomes of one seed.
    """
    found: dict[int, Outcome] = {}
    for outcome in outcomes:
        if not _has(outcome, side) or not math.isfinite(outcome.values.get(value, math.nan)):
            continue
        if outcome.seed in found:
            told = ", ".join(
                f"{name} {level_text(level)}" for name, level in side.items() if level is not None
            )
            raise AmbiguousError(f"two cells of seed {outcome.seed} have {told}")
        found[outcome.seed] = outcome
    return found


def _has(outcome: Outcome, side: Side) -> bool:
    return all(outcome.settings.get(name) == level for name, level in side.items())


def _numbers(found: Mapping[int, Outcome], value: str) -> dict[int, float]:
    return {seed: outcome.values[value] for seed, outcome in found.items()}


def is_share(value: str) -> bool:
    """Return whether a number is a share of images or pixels, which people read in percent."""
    return value.startswith("accuracy") or value.endswith(("accuracy", "miou"))


def _points(value: str) -> Unit:
    return "points" if is_share(value) else ""


def level(value: str, side: Side, region: Region, label: str) -> Statistic:
    """Test a number under some settings."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        found = find_matching(outcomes, side, value)
        if not found:
            return []
        unit: Unit = "percent" if is_share(value) else ""
        return [ClaimPart(label, _numbers(found, value), region, tuple(found.values()), unit)]

    return statistic


def difference(value: str, one: Side, other: Side, region: Region, label: str) -> Statistic:
    """Test the difference ``one - other`` of a number, paired by seed."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        sides = [find_matching(outcomes, side, value) for side in (one, other)]
        if not all(sides):
            return []
        per_seed = paired_differences(*(_numbers(side, value) for side in sides))
        return [ClaimPart(label, per_seed, region, _outcomes(sides), _points(value))]

    return statistic


def parts(*statistics: Statistic) -> Statistic:
    """Combine several statistics into one that returns the parts of all of them."""
    return lambda outcomes: [part for each in statistics for part in each(outcomes)]


def flags(autoaugment: bool, cutmix: bool, labelsmoothing: bool) -> Side:
    """Return the settings of one of the eight conditions; all other augmentations are off."""
    own = {f"cutmix.{name}": x for name, x in asdict(CutMix()).items()} if cutmix else {}
    off = {part: False for part in optional_parts() if part not in COUNTED}
    factors = dict(zip(EIGHT, (autoaugment, cutmix, labelsmoothing)))
    return {**factors, **own, "kind": "plain", **off}


def _eight(outcomes: Sequence[Outcome], value: str) -> dict[tuple[bool, ...], dict[int, Outcome]]:
    """Return the outcomes of the eight conditions by their flags; empty if one is missing."""
    places = [tuple(map(bool, place)) for place in np.ndindex(2, 2, 2)]
    found = {place: find_matching(outcomes, flags(*place), value) for place in places}
    return found if all(found.values()) else {}


def _outcomes(cells: Iterable[Mapping[int, Outcome]]) -> tuple[Outcome, ...]:
    return tuple(outcome for cell in cells for outcome in cell.values())


def main_effect(value: str, factor: str, region: Region, label: str) -> Statistic:
    """Test the main effect of one of the three parts of Modern, over all eight conditions."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        cells = _eight(outcomes, value)
        if not cells:
            return []
        plain = [
            Outcome(dict(zip(EIGHT, place)), seed, outcome.values)
            for place, cell in cells.items()
            for seed, outcome in cell.items()
        ]
        effect = factorial(plain, value).effect(factor)
        used = _outcomes(cells.values())
        return [ClaimPart(label, effect.per_seed, region, used, _points(value))]

    return statistic


def null_beside(value: str, factor: str, other: str, share: float, label: str) -> Statistic:
    """Test that a factor has at most ``share`` of another factor's effect on a number's logarithm.

    The margin is relative, because an absolute margin hides a threefold change of a small number.
    There are two parts, one per sign: the main effect of ``factor`` (or its negative) minus
    ``share`` times the size of the main effect of ``other``, both on the logarithm. Each must lie
    below 0.
    """

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        cells = _eight(outcomes, value)
        if not cells or any(x.values[value] <= 0 for x in _outcomes(cells.values())):
            return []
        logs = [
            Outcome(dict(zip(EIGHT, place)), seed, {value: math.log(outcome.values[value])})
            for place, cell in cells.items()
            for seed, outcome in cell.items()
        ]
        effects = factorial(logs, value)
        own, scale = (effects.effect(name).per_seed for name in (factor, other))
        return [
            ClaimPart(
                f"{label}, {'increase' if sign > 0 else 'decrease'}",
                {seed: sign * x - share * abs(scale[seed]) for seed, x in own.items()},
                Region(high=0.0, closed=False),
                _outcomes(cells.values()),
            )
            for sign in (1, -1)
        ]

    return statistic


def separation(value: str, factor: str, region: Region, label: str) -> Statistic:
    """Test the smallest gap in a number between conditions with and without a part of Modern."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        cells = _eight(outcomes, value)
        if not cells:
            return []
        place = EIGHT.index(factor)
        per_seed = {
            seed: max(x[seed].values[value] for on, x in cells.items() if on[place])
            - min(x[seed].values[value] for on, x in cells.items() if not on[place])
            for seed in sorted(set.intersection(*map(set, cells.values())))
        }
        return [ClaimPart(label, per_seed, region, _outcomes(cells.values()))]

    return statistic


def slope(
    value: str, side: Side, along: str, region: Region, label: str, default: float | None = None
) -> Statistic:
    """Test the least-squares slope of a number over a numeric setting.

    Args:
        value: The name of the number.
        side: The settings of the outcomes.
        along: The numeric setting.
        region: Where the slope lies if the claim holds.
        label: The name of the slope.
        default: The value of the setting in outcomes that leave it to the model.
    """

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        cells = {
            x: find_matching(outcomes, {**side, along: x}, value) for x in _levels(outcomes, along)
        }
        if default is not None and (own := find_matching(outcomes, {**side, along: None}, value)):
            if both := cells.get(default, {}).keys() & own.keys():
                raise AmbiguousError(
                    f"two cells of seed {min(both)} have {along} {default:g} (one by default)"
                )
            cells[default] = {**cells.get(default, {}), **own}
        return _slope_part({x: cell for x, cell in cells.items() if cell}, value, region, label)

    return statistic


def across_layers(
    metric: str, one: Side, other: Side, after: int, above: bool, label: str
) -> Statistic:
    """Test ``one - other`` in all layers after ``after``, by the least favourable layer.

    The numbers of a layer are called ``METRIC_layer_N``, with N counted from 1.
    """

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        start = f"{metric}_layer_"
        names = sorted(
            {
                name
                for outcome in outcomes
                for name in outcome.values
                if name.startswith(start) and int(name.removeprefix(start)) > after
            }
        )
        if not names:
            return []
        sides = [find_matching(outcomes, side, names[0]) for side in (one, other)]
        if not all(sides):
            return []
        shared = sorted(sides[0].keys() & sides[1].keys())
        per_seed = {}
        for seed in shared:
            a, b = (side[seed].values for side in sides)
            apart = [a[name] - b[name] for name in names if name in a and name in b]
            per_seed[seed] = min(apart) if above else max(apart)
        region = Region(low=0.0, closed=False) if above else Region(high=0.0, closed=False)
        return [ClaimPart(label, per_seed, region, _outcomes(sides))]

    return statistic


def weighted_sum(
    sides: Sequence[tuple[float, str, Side]], region: Region, label: str, absolute: bool = False
) -> Statistic:
    """Test a weighted sum of numbers, paired by seed, such as a gap between differences.

    Args:
        sides: The weight, the name of the number and the settings of each term.
        region: Where the sum lies if the claim holds.
        label: The name of the sum.
        absolute: Sum the terms whose weights are 1 or -1, and the other terms, separately, and
            subtract the sizes of the two sums: |a - b| - |0.2 c - 0.2 d|.
    """

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        found = [find_matching(outcomes, side, value) for _, value, side in sides]
        if not all(found):
            return []
        shared = sorted(set.intersection(*(set(x) for x in found)))
        per_seed = {}
        for seed in shared:
            terms = [w * x[seed].values[value] for (w, value, _), x in zip(sides, found)]
            whole = [abs(w) == 1 for w, _, _ in sides]
            if absolute:
                own, others = (
                    sum(x for x, is_whole in zip(terms, whole) if is_whole == wanted)
                    for wanted in (True, False)
                )
                per_seed[seed] = abs(own) - abs(others)
            else:
                per_seed[seed] = math.fsum(terms)
        unit = _points(sides[0][1])
        return [ClaimPart(label, per_seed, region, _outcomes(found), unit)]

    return statistic


def fact(value: str, region: Region, label: str, unit: Unit = "") -> Statistic:
    """Test a number that does not depend on the seed."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        (outcome,) = outcomes
        number = outcome.values.get(value, math.nan)
        known = math.isfinite(number)
        return [ClaimPart(label, {0: number}, region, (outcome,), unit)] * known

    return statistic


def _slope_part(
    cells: Mapping[float, Mapping[int, Outcome]], value: str, region: Region, label: str
) -> list[ClaimPart]:
    if len(cells) < 2:
        return []
    shared = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    per_seed = {
        seed: _slope([(x, cell[seed].values[value]) for x, cell in cells.items()])
        for seed in shared
    }
    return [ClaimPart(label, per_seed, region, _outcomes(cells.values()), _points(value))]


def gain_by_data(value: str, one: Side, plain: Side, region: Region, label: str) -> Statistic:
    """Test by how much the gain, 100 (one - plain) / plain, grows with ten times less data."""

    def statistic(outcomes: Sequence[Outcome]) -> list[ClaimPart]:
        gains: dict[float, dict[int, Outcome]] = {}
        used: list[Outcome] = []
        for fraction in _levels(outcomes, "data.fraction"):
            a, b = (
                find_matching(outcomes, {**side, "data.fraction": fraction}, value)
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
        return [ClaimPart(part.label, part.per_seed, part.region, tuple(used)) for part in found]

    return statistic


def _levels(outcomes: Sequence[Outcome], setting: str) -> list[float]:
    return sorted({float(x.settings[setting]) for x in outcomes if setting in x.settings})


def _slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))
