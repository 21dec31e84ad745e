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

NULL_SHARE = 0.2  # a smaller share of CutMix's effect on log MAD counts as no effect
ACCURACY_MARGIN = 0.02  # a smaller difference counts as none; the papers give no margin
FEWEST_SEEDS = 3  # for any statement at all
DECIDING_SEEDS = 5  # for a verdict: with an all-or-none outcome, 3 seeds mislead


Unit = Literal["", "points", "percent"]


@dataclass(frozen=True)
class Region:
    """The range in which a number lies if a claim holds; ``closed`` includes its ends."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True

    def holds(self, x: Estimate) -> bool:
        """Return whether the whole interval lies inside the region."""
        if self.closed:
            return self.low <= x.low and x.high <= self.high
        return self.low < x.low and x.high < self.high

    def fails(self, x: Estimate) -> bool:
        """Return whether the whole interval lies outside the region."""
        return x.low > self.high or x.high < self.low

    def __str__(self) -> str:
        return self.text()

    def text(self, unit: Unit = "") -> str:
        """Describe the region in a unit; shares are given in percent."""
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
    """Return the region of a claim of no effect, within a margin around 0."""
    return Region(-margin, margin)


@dataclass(frozen=True)
class ClaimPart:
    """A number of a claim: its value per seed, the outcomes used, and where it should lie."""

    label: str
    per_seed: Mapping[int, float]
    region: Region
    used: tuple[Outcome, ...]
    unit: Unit = ""  # if "points" or "percent", the values are shares

    @property
    def claimed(self) -> str:
        """The region in which the number should lie, in words."""
        return self.region.text(self.unit)


Statistic = Callable[[Sequence[Outcome]], list[ClaimPart]]


@dataclass(frozen=True)
class Scale:
    """The scale of a claim: models, epochs by data set, grid, and fewest seeds.

    A claim that compares backbones may have several grids: "14x14 or 56x56".
    """

    models: tuple[str, ...]
    epochs: Mapping[str, int]
    grid: str
    seeds: int = DECIDING_SEEDS
    recipe: PaperRecipe | None = None  # None: both sides only need the same one

    def __str__(self) -> str:
        data = ", ".join(f"{name} ({epochs} epochs)" for name, epochs in self.epochs.items())
        return f"{', '.join(self.models)} on {data}, {self.grid} patches, {self.seeds} seeds"

    def differences(self, outcomes: Sequence[Outcome], compares: Sequence[str] = ()) -> list[str]:
        """Describe in a few words each how the outcomes are not at this scale.

        Args:
            outcomes: The outcomes.
            compares: The settings that the claim itself varies.
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
        """Describe in a few words each the settings that we assumed, as the paper gives none."""
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
        task: The task of ``nearsight evaluate``.
        method: The method of the paper.
        data: The data sets of the paper.
        scale: What the heads were trained on, if the paper trained heads.
        values: The numbers of the claim that were evaluated this way. Empty means the number that
            the claim is about.
    """

    task: str
    method: str
    data: tuple[str, ...]
    scale: str | None = None
    values: tuple[str, ...] = ()

    def differences(self, value: str, outcomes: Sequence[Outcome]) -> list[str]:
        """Describe in a few words each how the outcomes were evaluated differently.

        Args:
            value: The number of the claim. If ``values`` names several, those are checked instead.
            outcomes: The outcomes that the claim compares.
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
    """A claim of a paper, and the statistic that decides it."""

    id: str
    source: str  # paper, table or figure
    sentence: str  # the claim, in our words
    value: str  # the number of an outcome that the claim is about
    statistic: Statistic
    direction: str  # where the statistic lies if the claim holds
    compares: tuple[str, ...] = ()  # settings (and those below them) that the claim varies
    scale: Scale | None = None  # None: facts decide it
    facts: Callable[[], Mapping[str, float]] | None = None  # numbers that no seed can change
    num_parts: int = 1  # all of them have to hold
    margin: float | None = None  # of a null claim
    paper: str = ""  # the paper's own numbers
    needs: str | None = None  # what nearsight lacks to compute the number
    evaluated: PaperEvaluation | None = None  # of a number of frozen features
