"""Describe the outcome of a finished cell as plain numbers, for statistics and claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from nearsight.core import UserError
from nearsight.study.design import Level, level_text

Factors = tuple[tuple[str, Level], ...]  # sorted by name; what tells a condition apart


@dataclass(frozen=True)
class Outcome:
    """One finished cell.

    ``factors``: its levels, such as {"cutmix": True}. ``values``: its numbers by name (accuracy,
    min_mad, …). ``settings``: everything else that was set (settings.py); claims need it to know
    the scale.
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
    """Return the name of a condition.

    >>> condition_text({"cutmix": True, "fraction": 0.1})
    'cutmix on, fraction 0.1'
    """
    return ", ".join(f"{name} {level_text(level)}" for name, level in dict(factors).items())


def by_condition(outcomes: Iterable[Outcome], value: str) -> dict[Factors, dict[int, float]]:
    """Return a number of every condition, by seed in ascending order.

    Outcomes without the number, or where it is not finite, are left out. The order of the outcomes
    does not matter; conditions come in the order of their levels.
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
    """Group outcomes by the levels of factors with more than two; a group is a 2^k factorial.

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
    """Return the levels of every factor, lowest first; UserError if outcomes differ in factors."""
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
