"""Compute main effects and interactions of 2^k factorials, paired by seed.

An effect is a contrast within each seed: the mean over the cells with sign +1 minus the mean over
the cells with sign -1. The sign of a cell is a product over the factors of the effect, with -1 for
a factor at its low level. For one factor, this is high minus low, averaged over the other factors.
For two, it is half the difference of one factor's effect between the levels of the other. An effect
is twice the coefficient of a linear model with levels coded -1 and +1 and seeds as blocks.

The interval is the t-interval of the contrasts per seed: each effect has its own error, estimated
with n - 1 degrees of freedom, and nothing is assumed about the other effects. A seed that lacks a
cell is left out, and a note names it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearsight.core import UserError
from nearsight.stats import (
    FEWEST_FOR_P,
    MOST_FOR_P,
    Estimate,
    holm,
    over_seeds,
    sign_flip_p,
    smallest_p_text,
)
from nearsight.study.analyse.outcome import Outcome, by_condition, condition_text, levels_of
from nearsight.study.design import Level, factor_text, level_text

Pair = tuple[Level, Level]  # low, high


@dataclass(frozen=True)
class Effect:
    """The main effect of a factor, or the interaction of several, on one number."""

    factors: tuple[str, ...]
    per_seed: Mapping[int, float]
    estimate: Estimate | None  # None with fewer than two seeds
    p: float | None  # of the sign-flip test, over seeds or over the pairs within them
    holm_p: float | None  # adjusted over the contrasts of this factorial

    @property
    def label(self) -> str:
        """The name for tables and messages."""
        return " × ".join(map(factor_text, self.factors))


@dataclass(frozen=True)
class Factorial:
    """All 2^k - 1 effects on one number, with the main effects first."""

    value: str
    levels: Mapping[str, Pair]
    effects: tuple[Effect, ...]
    seeds: tuple[int, ...]  # that have every cell
    dropped: Mapping[int, tuple[str, ...]]  # by seed, the cells that it lacks
    fixed: Mapping[str, Level] = field(default_factory=dict)  # factors that all cells share

    def name(self, effect: Effect) -> str:
        """Return the name of an effect, with the levels of the factors that do not vary."""
        return ", ".join([effect.label, *map(level_text, self.fixed.values())])

    def effect(self, *factors: str) -> Effect:
        """Return the effect of these factors.

        Raises:
            UserError: If one of the factors does not vary.
        """
        for effect in self.effects:
            if set(effect.factors) == set(factors):
                return effect
        raise UserError(
            f"there is no effect of {', '.join(factors)}; the factors are {', '.join(self.levels)}"
        )

    @property
    def pairing(self) -> str:
        """The levels that are compared, and the number of seeds."""
        highs = ", ".join(f"{factor_text(x)} {_contrast(pair)}" for x, pair in self.levels.items())
        return f"paired by seed, n = {len(self.seeds)}: {highs}"

    @property
    def notes(self) -> list[str]:
        """Sentences that explain the numbers to a reader."""
        said = [f"Effects on {self.value}, {self.pairing}."]
        said += [
            f"Seed {seed} is left out: it lacks {'; '.join(cells)}."
            for seed, cells in self.dropped.items()
        ]
        m = sum(effect.p is not None for effect in self.effects)
        if m:
            said.append(
                "The p values come from the exact sign-flip test on the differences between runs "
                f"that differ in one factor only. Holm's p corrects for the {m} contrasts that "
                "have a p value."
            )
        return [*said, smallest_p_text(len(self.seeds), max(m, 1), self.pairs_per_seed)]

    @property
    def pairs_per_seed(self) -> int:
        """The number of pairs of cells with the same seed that differ in one given factor only."""
        return 2 ** (len(self.levels) - 1)


def factorial(
    outcomes: Sequence[Outcome], value: str, levels: Mapping[str, Pair] | None = None
) -> Factorial:
    """Compute the effects of all factors with two levels on a number.

    Args:
        outcomes: The finished cells.
        value: The name of the number.
        levels: The low and high level of every factor. The default is all factors that vary, with
            off before on and small before large. Factors that are not given must not vary.

    Raises:
        UserError: If no factor has two levels, or one has more, or another factor varies too.
    """
    outcomes = list(outcomes)
    levels = _two_levels(outcomes) if levels is None else dict(levels)
    _check_fixed(outcomes, levels)
    cells = list(itertools.product(*levels.values()))
    by_cell = {
        tuple(dict(condition)[name] for name in levels): numbers
        for condition, numbers in by_condition(outcomes, value).items()
    }
    dropped: dict[int, tuple[str, ...]] = {}
    complete: list[int] = []
    for seed in sorted({outcome.seed for outcome in outcomes}):
        if lacking := [cell for cell in cells if seed not in by_cell.get(cell, {})]:
            dropped[seed] = tuple(condition_text(dict(zip(levels, cell))) for cell in lacking)
        else:
            complete.append(seed)
    named = effect_names(levels)
    contrasts = [
        {seed: _contrast_of(names, levels, by_cell, seed) for seed in complete} for names in named
    ]
    flips = [
        _differences_to_flip(names, levels, by_cell, contrast)
        for names, contrast in zip(named, contrasts)
    ]
    p_values = [sign_flip_p(x) if FEWEST_FOR_P <= len(x) <= MOST_FOR_P else None for x in flips]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    effects = tuple(
        Effect(
            factors=names,
            per_seed=contrast,
            estimate=over_seeds(list(contrast.values())) if len(complete) > 1 else None,
            p=p_values[i],
            holm_p=None if p_values[i] is None else next(adjusted),
        )
        for i, (names, contrast) in enumerate(zip(named, contrasts))
    )
    fixed = {name: x[0] for name, x in levels_of(outcomes).items() if name not in levels}
    return Factorial(value, levels, effects, tuple(complete), dropped, fixed)


def effect_names(levels: Mapping[str, Pair]) -> list[tuple[str, ...]]:
    """Return the factors of each of the 2^k - 1 effects, main effects first."""
    return [
        names
        for size in range(1, len(levels) + 1)
        for names in itertools.combinations(levels, size)
    ]


def signs(factors: Sequence[str], levels: Mapping[str, Pair]) -> dict[tuple[Level, ...], int]:
    """Return the sign of every cell in an effect; a cell has its levels in the order of ``levels``.

    >>> signs(["a"], {"a": (False, True), "b": (1, 2)})
    {(False, 1): -1, (False, 2): -1, (True, 1): 1, (True, 2): 1}
    """
    found = {}
    for places in itertools.product((0, 1), repeat=len(levels)):
        cell = tuple(pair[place] for pair, place in zip(levels.values(), places))
        found[cell] = math.prod(2 * dict(zip(levels, places))[name] - 1 for name in factors)
    return found


def _contrast_of(
    names: Sequence[str],
    levels: Mapping[str, Pair],
    by_cell: Mapping[tuple[Level, ...], Mapping[int, float]],
    seed: int,
) -> float:
    sign = signs(names, levels)
    return math.fsum(sign[cell] * by_cell[cell][seed] for cell in sign) / (len(sign) / 2)


def _differences_to_flip(
    names: Sequence[str],
    levels: Mapping[str, Pair],
    by_cell: Mapping[tuple[Level, ...], Mapping[int, float]],
    contrast: Mapping[int, float],
) -> list[float]:
    """Return the differences whose signs an exact test flips.

    For a main effect, these are high minus low of every pair of cells with the same seed that
    differ in this factor only. For an interaction, or if there are more than MOST_FOR_P pairs,
    there is one difference per seed.
    """
    num_pairs = 2 ** (len(levels) - 1) * len(contrast)
    if len(names) > 1 or num_pairs > MOST_FOR_P:
        return list(contrast.values())
    place = list(levels).index(names[0])
    low, high = levels[names[0]]
    cells = [cell for cell in itertools.product(*levels.values()) if cell[place] == high]
    pairs = [(cell, (*cell[:place], low, *cell[place + 1 :])) for cell in cells]
    return [by_cell[on][seed] - by_cell[off][seed] for seed in contrast for on, off in pairs]


def _two_levels(outcomes: list[Outcome]) -> dict[str, Pair]:
    found: dict[str, Pair] = {}
    for name, known in levels_of(outcomes).items():
        if len(known) > 2:
            told = ", ".join(map(level_text, known))
            raise UserError(
                f"{name} has the levels {told}, but a factor of a 2^k factorial has two; give two"
            )
        if len(known) == 2:
            found[name] = (known[0], known[1])
    if not found:
        raise UserError(
            "no factor has two levels, so there is no effect to compute; "
            "give outcomes of two conditions"
        )
    return found


def _check_fixed(outcomes: list[Outcome], levels: Mapping[str, Pair]) -> None:
    known = levels_of(outcomes)
    for name, pair in levels.items():
        if name not in known:
            raise UserError(
                f"there is no factor {name!r}; the factors are {', '.join(known) or 'none'}"
            )
        if pair[0] == pair[1] or set(known[name]) - set(pair):
            told = ", ".join(map(level_text, known[name]))
            wanted = " and ".join(map(level_text, pair))
            raise UserError(f"the levels of {name} must be {wanted}, but the outcomes have {told}")
    varying = [name for name, found in known.items() if len(found) > 1 and name not in levels]
    if varying:
        raise UserError(
            f"the outcomes differ in {', '.join(varying)} too; give outcomes with one level of each"
        )


def _contrast(pair: Pair) -> str:
    return f"{level_text(pair[1])} against {level_text(pair[0])}"
