"""Compute the effects of factors on every number, at the end and at equal progress.

Factors with two levels are a 2^k factorial at every level of the others, so a study of CutMix in
four models has four factorials. Early stopping makes conditions train for different lengths: every
effect is also given at the last epoch and at the lowest training loss that all runs reached. Where
runs train to the end, a study may also ask for the effects as if each had been stopped early.

These are many intervals. Those beside the primary contrast are simultaneous: their levels are so
high (Bonferroni) that all of them cover at once in 95 of 100 studies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nearsight.stats import Estimate, over_seeds, simultaneous_level
from nearsight.study.analyse.factorials import Effect, Factorial, factorial
from nearsight.study.analyse.image_effects import ImageEffects, image_effects
from nearsight.study.analyse.loaded import LoadedStudy
from nearsight.study.analyse.matched import Course, at_matched_epoch, at_matched_loss
from nearsight.study.analyse.outcome import Outcome, factorial_groups
from nearsight.study.analyse.results import courses, numbers_shown, outcomes


@dataclass(frozen=True)
class Effects:
    """The effects on one number, at one level of the factors that have more than two."""

    at_end: Factorial
    at_steps: tuple[int, Factorial] | None  # with the epoch
    at_loss: tuple[float, Factorial] | None  # with the loss
    at_stop: tuple[int, Factorial] | None = None  # with the patience of virtual early stopping
    over_images: ImageEffects = field(default_factory=dict)  # where runs keep values per image

    @property
    def value(self) -> str:
        """The name of the number."""
        return self.at_end.value


def study_effects(study: LoadedStudy) -> list[Effects]:
    """Return the effects on every number; none if no factor has two levels."""
    ways = factorial_groups(courses(study))
    ended = outcomes(study)
    ends, found = factorial_groups(ended), []
    for value in (x.name for x in numbers_shown(ended)):
        for at, group in ends.items():
            if not any(value in x.values for x in group):
                continue  # measured on request, which this study did not
            end, way = factorial(group, value), ways[at]
            images = image_effects(study, end)
            stop = at_stop(way, value, study.record.virtual_patience)
            found.append(Effects(end, at_steps(way, value), at_loss(way, value), stop, images))
    return found


def num_simultaneous(found: Sequence[Effects]) -> int:
    """Count the intervals of effects: one for every contrast, number and time.

    The primary contrast is not taken off: it is one of them where it is an effect of one factor.
    """
    return sum(
        effect.estimate is not None
        for x in found
        for of in (x.at_end, *(y[1] for y in (x.at_steps, x.at_loss, x.at_stop) if y))
        for effect in of.effects
    )


def simultaneous(effect: Effect, num: int) -> Estimate | None:
    """Return an effect with the interval that is simultaneous with ``num`` - 1 others."""
    if effect.estimate is None or not num:
        return None
    return over_seeds(list(effect.per_seed.values()), simultaneous_level(num))


def at_steps(group: Sequence[Course], value: str) -> tuple[int, Factorial] | None:
    """Return the epoch and the effects at the last epoch at which every run was measured."""
    epoch, at_once = at_matched_epoch(group, value)
    return None if epoch is None else (epoch, factorial(at_once, value))


def at_loss(group: Sequence[Course], value: str) -> tuple[float, Factorial] | None:
    """Return the loss and the effects at the lowest training loss that every run reached."""
    loss, at_once = at_matched_loss(group)
    return None if loss is None else (loss, factorial(at_once, value))


def at_stop(
    group: Sequence[Course], value: str, patience: int | None
) -> tuple[int, Factorial] | None:
    """Return the patience and the effects with early stopping; None if no run has the number."""
    if patience is None:
        return None
    kept = [course.at_virtual_stop(patience) for course in group]
    return (patience, factorial(kept, value)) if any(value in x.values for x in kept) else None


def effects_by_epoch(group: Sequence[Course], value: str) -> Iterator[tuple[int, Factorial]]:
    """Return the effects at every epoch at which all runs were measured."""
    for epoch in group[0].epochs:
        at_once: list[Outcome] = [course.at_epoch(epoch) for course in group]
        if all(value in x.values for x in at_once):
            yield epoch, factorial(at_once, value)
