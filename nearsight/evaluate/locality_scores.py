"""Score a model, plain or made local, on the same images, with its gain over the plain model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nearsight.evaluate.bench_runner import Say, evaluate_subject
from nearsight.evaluate.benches import Settings
from nearsight.evaluate.features import Subject
from nearsight.evaluate.task_outcome import TaskOutcome
from nearsight.measure.localise import Locality
from nearsight.stats import Estimate

NUMBER = "mIoU"


@dataclass(frozen=True)
class Scored:
    """The score of one model on some images."""

    name: str
    role: str
    locality: Locality | None
    outcome: TaskOutcome
    gain: Estimate | None

    @property
    def value(self) -> float:
        """The score."""
        return self.outcome.numbers[NUMBER].estimate.value

    def contents(self) -> dict[str, Any]:
        """Return the entry of localise.json."""
        return {
            "name": self.name,
            "role": self.role,
            "locality": None if self.locality is None else str(self.locality),
            "layer": self.outcome.layer,
            "score": interval_contents(self.outcome.numbers[NUMBER].estimate),
            "gain": None if self.gain is None else interval_contents(self.gain),
            "seconds": self.outcome.seconds,
        }

    def text(self) -> str:
        """Return one line with the score and the gain in points of mIoU."""
        estimate = self.outcome.numbers[NUMBER].estimate
        line = f"{self.name:<28} {NUMBER} {100 * estimate.value:5.1f}"
        if self.gain is None:
            return line
        low, high = 100 * self.gain.low, 100 * self.gain.high
        return f"{line}  {100 * self.gain.value:+5.1f} ({low:+.1f} to {high:+.1f})"


@dataclass
class Scorer:
    """Score one model, plain or made local, on the same images.

    Args:
        open_model: Returns the model with a locality, or the plain one for None.
        settings: The task and the images.
        say: Called with a line for every score.
        plain: The scores of the plain model so far, by layer.
    """

    open_model: Callable[[Locality | None], Subject]
    settings: Settings
    say: Say
    plain: dict[int, Scored] = field(default_factory=dict)

    def score_plain(self, layers: str = "last") -> list[Scored]:
        """Score the plain model at some layers. Gains are relative to its last layer."""
        subject = self.open_model(None)
        found = evaluate_subject(subject, replace(self.settings, layer=layers))
        last = max(found.outcomes, key=lambda outcome: outcome.layer)
        scored = []
        for outcome in found.outcomes:
            is_last = outcome is last
            gain = None if is_last else _gain(outcome, last)
            name = "plain" if is_last else f"plain, layer {outcome.layer}"
            scored.append(Scored(name, "plain" if is_last else "control", None, outcome, gain))
            self.plain[outcome.layer] = scored[-1]
            self.say(scored[-1].text())
        return scored

    def score(self, locality: Locality, role: str) -> Scored:
        """Score the last layer of the model after making it local."""
        found = evaluate_subject(self.open_model(locality), self.settings)
        (outcome,) = found.outcomes
        last = self.plain[max(self.plain)].outcome
        scored = Scored(str(locality), role, locality, outcome, _gain(outcome, last))
        self.say(scored.text())
        return scored


def _gain(outcome: TaskOutcome, plain: TaskOutcome) -> Estimate:
    return outcome.numbers[NUMBER].minus(plain.numbers[NUMBER])


def interval_contents(estimate: Estimate) -> dict[str, float]:
    """Return an estimate in the form of localise.json."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
