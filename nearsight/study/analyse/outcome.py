"""Describe the outcome of a finished cell as plain numbers, for statistics and claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from nearsight.core import UserError
from nearsight.study.design import Level, level_text

Factors = tuple[tuple[str, Level], ...]  # the levels of a condition, sorted by factor


@dataclass(frozen=True)
class Outcome:
    """The outcome of one finished cell.

    Args:
        factors: The level of every factor, such as ``{"cutmix": True}``.
        seed: The seed.
        values: The numbers by name, such as ``accuracy`` and ``min_mad``.
        settings: All other settings (design/settings.py), from which claims know the scale.
    """

    factors: Mapping[str, Level]
    seed: int
    values: Mapping[str, float]
    settings: Mapping[str, Level] = field(default_factory=dict)

    @property
    def condition(self) -> Factors:
        """The factors and their levels."""
        return tuple(sorted(self.factors.items()))


class HasFactors(Protocol):
    """An outcome, or the course of a run."""

    @property
    def factors(self) -> Mapping[str, Level]:
        """The level of each factor."""


Grouped = TypeVar("Grouped", bound=HasFactors)


def condition_text(factors: Mapping[str, Level] | Factors) -> str:
    """Return the name of a condition: its factors with their levels.

    >>> condition_text({"cutmix": True, "fraction": 0.1})
    'cutmix on, fraction 0.1'
    """
    return ", ".join(f"{name} {level_text(level)}" for name, level in dict(factors).items())


def by_condition(outcomes: Iterable[Outcome], value: str) -> dict[Factors, dict[int, float]]:
    """Return a number for every condition and seed, with seeds in ascending order.

    Outcomes that lack the number, or in which it is not finite, are left out. The conditions are in
    the order of their levels.

    Raises:
        UserError: If two outcomes have the same condition and seed.
    """
    found: dict[Factors, dict[int, float]] = {}
    for outcome in outcomes:
        seeds = found.setdefault(outcome.condition, {})
        number = outcome.values.get(value)
        if number is None or not math.isfinite(number):
            continue
        if outcome.seed in seeds:
            raise UserError(
                f"two outcomes have seed {outcome.seed} and condition "
                f"{condition_text(outcome.condition) or 'the only one'}; give only one of them"
            )
        seeds[outcome.seed] = float(number)
    return {
        condition: dict(sorted(found[condition].items()))
        for condition in sorted(found, key=_order)
        if found[condition]
    }


def _order(condition: Factors) -> list[tuple[str, str, float, str]]:
    return [(name, *level_order(level)) for name, level in condition]


def level_order(level: Level) -> tuple[str, float, str]:
    """Return a sort key for levels: off before on, small before large, words alphabetically."""
    if isinstance(level, str):
        return "word", 0.0, level
    return "number", float(level), ""


def factorial_groups(found: Sequence[Grouped]) -> dict[tuple[Level, ...], list[Grouped]]:
    """Group outcomes into 2^k factorials, by the levels of factors that have more than two.

    A group in which nothing varies is left out.
    """
    known = levels_of(found)
    apart = [name for name, levels in known.items() if len(levels) > 2]
    groups: dict[tuple[Level, ...], list[Grouped]] = {}
    for x in found:
        groups.setdefault(tuple(x.factors[name] for name in apart), []).append(x)
    return {
        at: group
        for at, group in groups.items()
        if any(len(levels) == 2 for levels in levels_of(group).values())
    }


def levels_of(outcomes: Iterable[HasFactors]) -> dict[str, list[Level]]:
    """Return the levels of every factor, lowest first.

    Raises:
        UserError: If the outcomes do not have the same factors.
    """
    found: dict[str, set[Level]] = {}
    names: set[str] | None = None
    for outcome in outcomes:
        if names is not None and names != set(outcome.factors):
            raise UserError(
                "all outcomes must have the same factors, but some have "
                f"{', '.join(sorted(names))} and others {', '.join(sorted(outcome.factors))}"
            )
        names = set(outcome.factors)
        for name, level in outcome.factors.items():
            found.setdefault(name, set()).add(level)
    return {name: sorted(levels, key=level_order) for name, levels in found.items()}
