"""The effects of a study's factors on every number: at the end, and at equal progress.

Factors with two levels are a 2^k factorial at every level of the others, so a study of CutMix in
four models has four factorials. Early stopping makes conditions train for different lengths: every
effect is also given at the last epoch and at the lowest training loss that all runs reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nearsight.measure.catalogue import RUN_NUMBERS
from nearsight.study.analyse.factorials import Factorial, factorial
from nearsight.study.analyse.image_effects import ImageEffects, image_effects
from nearsight.study.analyse.loaded import LoadedStudy
from nearsight.study.analyse.matched import Course, at_matched_epoch, at_matched_loss
from nearsight.study.analyse.outcome import Outcome, factorial_groups
from nearsight.study.analyse.results import courses, outcomes


@dataclass(frozen=True)
class Effects:
    """On one number, at one level of the factors with more than two."""

    at_end: Factorial
    at_steps: tuple[int, Factorial] | None  # with the epoch
    at_loss: tuple[float, Factorial] | None  # with the loss
    over_images: ImageEffects = field(default_factory=dict)  # where runs keep values per image

    @property
    def value(self) -> str:
        return self.at_end.value


def study_effects(study: LoadedStudy) -> list[Effects]:
    """By number, then by the level of the other factors; empty where no factor has two levels."""
    ways = factorial_groups(courses(study))
    ends = factorial_groups(outcomes(study))
    found = []
    for value in (x.name for x in RUN_NUMBERS):
        for at, group in ends.items():
            if not any(value in x.values for x in group):
                continue  # measured on request, which this study did not
            end, way = factorial(group, value), ways[at]
            images = image_effects(study, end)
            found.append(Effects(end, at_steps(way, value), at_loss(way, value), images))
    return found


def at_steps(group: Sequence[Course], value: str) -> tuple[int, Factorial] | None:
    """At the last epoch at which every run was seen."""
    epoch, at_once = at_matched_epoch(group, value)
    return None if epoch is None else (epoch, factorial(at_once, value))


def at_loss(group: Sequence[Course], value: str) -> tuple[float, Factorial] | None:
    """At the lowest training loss that every run reached."""
    loss, at_once = at_matched_loss(group)
    return None if loss is None else (loss, factorial(at_once, value))


def effects_by_epoch(group: Sequence[Course], value: str) -> Iterator[tuple[int, Factorial]]:
    """At every epoch at which all runs were seen."""
    for epoch in group[0].epochs:
        at_once: list[Outcome] = [course.at_epoch(epoch) for course in group]
        if all(value in x.values for x in at_once):
            yield epoch, factorial(at_once, value)
