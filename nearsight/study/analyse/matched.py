"""Compare conditions at equal progress: at the same epoch, or at the same clean training loss.

Early stopping lets conditions train for different lengths, so an effect at the end may be an effect
of the length. A course holds the numbers of a run at every epoch; matched at an epoch or a loss, it
gives an outcome like any other. Runs that were all trained to the end can also be read as if each
had been stopped early: an effect that appears then and not at equal steps is an effect of the
length.

The loss that is matched is the cross-entropy of fixed training images, without augmentation and
with hard labels. The loss of the training itself cannot be compared between conditions, because its
targets change if images are mixed or labels are smoothed. Runs that did not record the clean loss
are not matched by loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nearsight.core import UserError
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.design import Level


@dataclass(frozen=True)
class Course:
    """The numbers of a run at every epoch, by name; None if one was not measured.

    ``clean_loss`` is infinite if it was not measured.
    """

    factors: Mapping[str, Level]
    seed: int
    epochs: Sequence[int]
    clean_loss: Sequence[float]
    values: Mapping[str, Sequence[float | None]]
    settings: Mapping[str, Level] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(self.epochs), len(self.clean_loss), *map(len, self.values.values())}
        if len(lengths) > 1:
            raise UserError(
                "a course needs a loss and values for every epoch, but their numbers are "
                f"{sorted(lengths)}"
            )
        if list(self.epochs) != sorted(set(self.epochs)):
            raise UserError("the epochs of a course must be in ascending order, each only once")

    def at_epoch(self, epoch: int) -> Outcome:
        """Return the numbers that were measured at an epoch."""
        places = [i for i, x in enumerate(self.epochs) if x == epoch]
        found = {name: x[i] for name, x in self.values.items() for i in places}
        return self._outcome({name: x for name, x in found.items() if x is not None})

    def at_loss(self, loss: float) -> Outcome:
        """Return the numbers at the time when the clean loss first fell to a value, interpolated.

        There are none if the run never reached the value, or began below it.
        """
        when = self.epoch_of_loss(loss)
        found = {name: self._between(name, when) for name in self.values}
        return self._outcome({name: x for name, x in found.items() if x is not None})

    def at_virtual_stop(self, patience: int) -> Outcome:
        """Return the outcome that early stopping would have kept, although the run continued.

        Attention is measured only every few epochs, so its numbers are those of the last
        measurement at or before the epoch that would have been kept.

        Args:
            patience: Epochs without a better validation accuracy after which training stops.
        """
        best = self.virtual_stop(patience)
        found = {}
        for name, values in self.values.items():
            known = [x for e, x in zip(self.epochs, values) if x is not None and e <= (best or -1)]
            if known:
                found[name] = known[-1]
        return self._outcome(found)

    def virtual_stop(self, patience: int) -> int | None:
        """Return the epoch that early stopping would have kept, or None without accuracy."""
        best: tuple[int, float] | None = None
        for epoch, accuracy in zip(self.epochs, self.values.get("accuracy", ())):
            if best is not None and epoch - best[0] > patience:
                break
            if accuracy is not None and (best is None or accuracy > best[1]):
                best = epoch, accuracy
        return None if best is None else best[0]

    def epoch_of_loss(self, loss: float) -> float | None:
        """Return the time when the clean loss first fell to a value, in epochs and fractions."""
        taken = [(e, x) for e, x in zip(self.epochs, self.clean_loss) if x < math.inf]
        if not taken or taken[0][1] < loss:
            return None
        if taken[0][1] == loss:
            return float(taken[0][0])
        for (first, before), (last, after) in pairwise(taken):
            if after <= loss:
                return first + (before - loss) / (before - after) * (last - first)
        return None

    def _between(self, name: str, when: float | None) -> float | None:
        """Interpolate a number between the two nearest epochs at which it was measured."""
        known = [(e, x) for e, x in zip(self.epochs, self.values[name]) if x is not None]
        if when is None or not known or not known[0][0] <= when <= known[-1][0]:
            return None
        (first, low), (last, high) = (
            max((p for p in known if p[0] <= when), key=lambda p: p[0]),
            min((p for p in known if p[0] >= when), key=lambda p: p[0]),
        )
        return low if first == last else low + (high - low) * (when - first) / (last - first)

    def _outcome(self, values: Mapping[str, float]) -> Outcome:
        return Outcome(self.factors, self.seed, values, self.settings)


def common_epoch(courses: Sequence[Course], value: str) -> int | None:
    """Return the last epoch at which every run has the number, or None."""
    known = [
        {e for e, x in zip(course.epochs, course.values.get(value, ())) if x is not None}
        for course in courses
    ]
    shared = set.intersection(*known) if known else set()
    return max(shared, default=None)


def common_loss(courses: Sequence[Course]) -> float | None:
    """Return the lowest clean loss that every run reached, or None if there is none."""
    if not courses or not all(course.epochs for course in courses):
        return None
    lowest = max(min(course.clean_loss) for course in courses)
    return lowest if lowest < math.inf else None


def at_matched_epoch(courses: Sequence[Course], value: str) -> tuple[int | None, list[Outcome]]:
    """Return the last common epoch, and the outcomes of all runs at it."""
    epoch = common_epoch(courses, value)
    return epoch, [] if epoch is None else [course.at_epoch(epoch) for course in courses]


def at_matched_loss(courses: Sequence[Course]) -> tuple[float | None, list[Outcome]]:
    """Return the matched loss, and all runs at it; a run that began below it has no numbers."""
    loss = common_loss(courses)
    return loss, [] if loss is None else [course.at_loss(loss) for course in courses]
