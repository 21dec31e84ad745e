"""Define a claim: a sentence of a paper, the number that decides it, and its scale."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nearsight.stats import Estimate
from nearsight.study.analyse import Outcome
from nearsight.study.claims.paper_recipe import PaperRecipe, Settings

NULL_SHARE = 0.2  # of CutMix's effect on log MAD: an effect that counts as none
ACCURACY_MARGIN = 0.02  # a difference of accuracy that counts as none; the papers give none
FEWEST_SEEDS = 3  # for any statement at all
DECIDING_SEEDS = 5  # for 'supported' or 'contradicted': 3 seeds of an all-or-none outcome mislead


Unit = Literal["", "points", "percent"]


@dataclass(frozen=True)
class Region:
    """The interval in which a number lies if a claim holds, with its ends if ``closed``."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True

    def holds(self, x: Estimate) -> bool:
        """Tell whether the whole interval lies inside."""
        if self.closed:
            return self.low <= x.low and x.high <= self.high
        return self.low < x.low and x.high < self.high

    def fails(self, x: Estimate) -> bool:
        """Tell whether the whole interval lies outside."""
        return x.low > self.high or x.high < self.low

    def __str__(self) -> str:
        return self.text()

    def text(self, unit: Unit = "") -> str:
        """Return where the region lies, in a unit; shares are told in percent."""
        times, word = (100, f" {'%' if unit == 'percent' else unit}") if unit else (1, "")
        low, high = times * self.low, times * self.high
        if low == -high:
            return f"within ±{high:g}{word}"
        if high == math.inf:
            return f"{'at least' if self.closed else 'above'} {low:g}{word if low else ''}"
        return f"{'at most' if self.closed else 'below'} {high:g}{word if high else ''}"


BELOW = Region(high=0.0, closed=False)
ABOVE = Region(low=0.0, closed=False)


def within(margin: float) -> Region:
    """Return the region of a claim of no effect: the interval must lie inside the margin."""
    return Region(-margin, margin)


@dataclass(frozen=True)
class ClaimPart:
    """A number of a claim: its values per seed, their outcomes, and where it should lie."""

    label: str
    per_seed: Mapping[int, float]
    region: Region
    used: tuple[Outcome, ...]
    unit: Unit = ""  # of the number; "points" and "percent" are kept as shares

    @property
    def claimed(self) -> str:
        """Where the number should lie, in its unit."""
        return self.region.text(self.unit)


Statistic = Callable[[Sequence[Outcome]], list[ClaimPart]]


@dataclass(frozen=True)
class Scale:
    """The scale of a claim: models, data sets with numbers of epochs, grid, fewest seeds.

    A claim that compares backbones may have several grids: "14x14 or 56x56".
    """

    models: tuple[str, ...]
    epochs: Mapping[str, int]
    grid: str
    seeds: int = DECIDING_SEEDS
    recipe: PaperRecipe | None = None  # None: nothing is asked but that both sides share it

    def __str__(self) -> str:
        data = ", ".join(f"{name} ({epochs} epochs)" for name, epochs in self.epochs.items())
        return f"{', '.join(self.models)} on {data}, {self.grid} patches, {self.seeds} seeds"

    def differences(self, outcomes: Sequence[Outcome], compares: Sequence[str] = ()) -> list[str]:
        """Say in what the outcomes are not at this scale, a few words each.

        ``compares`` are the settings that the claim itself varies.
        """
        found: dict[str, None] = {}
        for outcome in outcomes:
            for words in self._of_one(outcome.settings):
                found[words] = None
            if self.recipe and outcome.settings.get("data.name") in self.epochs:
                for words in self.recipe.differences(outcome.settings, compares):
                    found[words] = None
        return list(found)

    def assumed(self, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
        """Return the values of the recipe that the paper does not give, a few words each."""
        if self.recipe is None:
            return ()
        known = [x.settings for x in outcomes if x.settings.get("data.name") in self.epochs]
        return tuple(dict.fromkeys(x for settings in known for x in self.recipe.assumed(settings)))

    def _of_one(self, settings: Settings) -> list[str]:
        name, data = settings.get("model.name"), settings.get("data.name")
        epochs, grid = settings.get("epochs"), settings.get("grid")
        said = []
        if name not in self.models:
            own = (
                " or ".join(self.models)
                if len(self.models) < 3
                else f"{self.models[0]} or its like"
            )
            said.append(f"model {name or 'not known'} instead of {own}")
        said += [
            f"{part} {settings[f'model.{part}']} instead of the model's own"
            for part in ("depth", "width", "num_heads")
            if f"model.{part}" in settings
        ]
        if data not in self.epochs:
            return [*said, f"data {data or 'not known'} instead of {' or '.join(self.epochs)}"]
        whole = float(epochs or 0) * float(settings.get("data.fraction", 1.0))
        if whole < self.epochs[str(data)] - 0.5:
            said.append(f"{whole:g} epochs of all data instead of {self.epochs[str(data)]}")
        if grid not in self.grid.split(" or "):
            said.append(f"{grid or 'unknown'} patches instead of {self.grid}")
        return said


@dataclass(frozen=True)
class PaperEvaluation:
    """How a paper evaluated frozen features.

    Args:
        task: What to ask ``nearsight evaluate`` for.
        method: The paper's method.
        data: The data sets of the paper.
        scale: What its heads were trained on, if it trained any.
        values: The numbers of the claim that were evaluated so; empty: the claim's only one.
    """

    task: str
    method: str
    data: tuple[str, ...]
    scale: str | None = None
    values: tuple[str, ...] = ()

    def differences(self, value: str, outcomes: Sequence[Outcome]) -> list[str]:
        """Return how numbers of the outcomes were evaluated otherwise, a few words each.

        ``value`` is the claim's number, which is asked for unless ``values`` names several.
        """
        found: dict[str, None] = {}
        for outcome, name in itertools.product(outcomes, self.values or (value,)):
            method, data, scale = (
                str(outcome.settings.get(f"evaluate.{name}.{x}", "unknown"))
                for x in ("method", "data", "scale")
            )
            if method != self.method:
                found[f"evaluated by {method} instead of {self.method}"] = None
            if data not in self.data:
                found[f"evaluated on {data} instead of {' or '.join(self.data)}"] = None
            if method == self.method and self.scale and scale != self.scale:
                found[f"head trained on {scale} instead of {self.scale}"] = None
        return list(found)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper as data."""

    id: str
    source: str  # paper, table or figure
    sentence: str  # what is claimed, in our words
    value: str  # the number it is about, of an outcome
    statistic: Statistic
    direction: str  # where the statistic lies if the claim holds
    compares: tuple[str, ...] = ()  # settings that differ between what is compared, and below
    scale: Scale | None = None  # None: decided by facts
    facts: Callable[[], Mapping[str, float]] | None = None  # numbers that no seed can change
    num_parts: int = 1  # that all have to hold
    margin: float | None = None  # of a null claim
    paper: str = ""  # the paper's own numbers
    needs: str | None = None  # work that the number waits for
    evaluated: PaperEvaluation | None = None  # of a number of frozen features
