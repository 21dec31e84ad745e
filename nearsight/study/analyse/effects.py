"""Compute the effects of factors on every number, at the end and at equal progress.

The factors with two levels form a 2^k factorial at every level of the other factors, so a study of
CutMix in four models has four factorials. Early stopping makes conditions train for different
lengths. Therefore every effect is also computed at the last epoch, and at the lowest training loss,
that all runs reached. If runs train to the end, a study may also ask for the effects as if each run
had been stopped early.

These are many intervals. All except that of the primary contrast are simultaneous: their levels are
so high (Bonferroni) that in 95 of 100 studies all of them contain the true value.
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
    at_steps: tuple[int, Factorial] | None  # the epoch, and the effects at it
    at_loss: tuple[float, Factorial] | None  # the loss, and the effects at it
    at_stop: tuple[int, Factorial] | None = None  # the patience of virtual early stopping
    over_images: ImageEffects = field(default_factory=dict)  # if runs keep values per image

    @property
    def value(self) -> str:
        """The name of the number."""
        return self.at_end.value


def study_effects(study: LoadedStudy) -> list[Effects]:
    """Compute the effects on every number; the list is empty if no factor has two levels."""
    ways = factorial_groups(courses(study))
    ended = outcomes(study)
    ends, found = factorial_groups(ended), []
    for value in (x.name for x in numbers_shown(ended)):
        for at, group in ends.items():
            if not any(value in x.values for x in group):
                continue  # measured only on request, and this study did not ask
            end, way = factorial(group, value), ways[at]
            images = image_effects(study, end)
            stop = at_stop(way, value, study.record.virtual_patience)
            found.append(Effects(end, at_steps(way, value), at_loss(way, value), stop, images))
    return found


def num_simultaneous(found: Sequence[Effects]) -> int:
    """Count the intervals of effects: one for every contrast, number and time.

    The primary contrast is counted too if it is the main effect of a factor.
    """
    return sum(
        effect.estimate is not None
        for x in found
        for of in (x.at_end, *(y[1] for y in (x.at_steps, x.at_loss, x.at_stop) if y))
        for effect in of.effects
    )


def simultaneous_estimate(effect: Effect, num: int) -> Estimate | None:
    """Return the estimate of an effect with an interval that is simultaneous with others.

    Args:
        effect: The effect.
        num: The number of intervals that are simultaneous, including this one.
    """
    if effect.estimate is None or not num:
        return None
    return over_seeds(list(effect.per_seed.values()), simultaneous_level(num))


simultaneous = simultaneous_estimate  # the old name, for one version


def at_steps(group: Sequence[Course], value: str) -> tuple[int, Factorial] | None:
    """Return the last epoch at which every run was measured, and the effects at it."""
    epoch, at_once = at_matched_epoch(group, value)
    return None if epoch is None else (epoch, factorial(at_once, value))


def at_loss(group: Sequence[Course], value: str) -> tuple[float, Factorial] | None:
    """Return the lowest training loss that every run reached, and the effects at it."""
    loss, at_once = at_matched_loss(group)
    return None if loss is None else (loss, factorial(at_once, value))


def at_stop(
    group: Sequence[Course], value: str, patience: int | None
) -> tuple[int, Factorial] | None:
    """Return the patience and the effects under virtual early stopping, or None without them."""
    if patience is None:
        return None
    kept = [course.at_virtual_stop(patience) for course in group]
    return (patience, factorial(kept, value)) if any(value in x.values for x in kept) else None


def effects_by_epoch(group: Sequence[Course], value: str) -> Iterator[tuple[int, Factorial]]:
    """Yield the effects at every epoch at which all runs were measured."""
    for epoch in group[0].epochs:
        at_once: list[Outcome] = [course.at_epoch(epoch) for course in group]
        if all(value in x.values for x in at_once):
            yield epoch, factorial(at_once, value)
