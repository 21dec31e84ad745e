"""Verdicts on claims: from intervals over seeds only, at the claim's own scale only.

A claim is supported if the 95 % t-interval of each of its parts lies where the claim says; all
parts have to, so no correction is needed. It is contradicted if one part's interval lies wholly
elsewhere; with k parts that interval is of level 1 - 0.05 / k, as there are k chances. Everything
else is not decided, and so is whatever was seen at another scale than the claim's. Both verdicts
need 5 seeds: with 3 or 4 the verdict only leans to one, with the interval and the exact p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearsight.stats import MOST_FOR_P, Estimate, over_seeds, sign_flip_p
from nearsight.study.analyse import Outcome
from nearsight.study.claims.claim import FEWEST_SEEDS, Claim, ClaimPart
from nearsight.study.claims.comparisons import AmbiguousError
from nearsight.study.design import Level, level_text

SUPPORTED, CONTRADICTED = "supported", "contradicted"
LEANING = "undecided, leaning to"  # followed by one of the two above
NOT_DECIDED, FEW_SEEDS, NO_DATA = "not decided at this scale", "not enough seeds", "no data"

TOLD = ("model.name", "data.name", "epochs", "grid", "model.depth", "model.width")  # a scale
OWN = ("model.depth", "model.width")  # absent where they are the model's own
Seen = Literal["as claimed", "the opposite", "open"]


@dataclass(frozen=True)
class Finding:
    """One part of a claim in the outcomes; no estimate with fewer than two seeds."""

    label: str
    region: str
    n: int
    estimate: Estimate | None
    seen: Seen | None
    p: float | None = None  # exact, two-sided, of a difference from 0; None where that is not asked

    def __str__(self) -> str:
        if self.estimate is None:
            return f"{self.label}: {self.n} seed{'s' * (self.n != 1)}, no interval"
        x = self.estimate
        return (
            f"{self.label}: {x.value:.4g} ({x.low:.4g} to {x.high:.4g}, n = {x.n} seeds"
            f"{'' if self.p is None else f', exact p = {self.p:.2g}'}), "
            f"claimed {self.region}: {self.seen}"
        )


@dataclass(frozen=True)
class Verdict:
    """A decision on a claim, with the numbers and the scale it comes from."""

    claim: Claim
    decision: str  # one of the five above, or "needs …"
    reason: str  # a sentence
    findings: tuple[Finding, ...] = ()
    where: str = ""  # the scale of the outcomes
    elsewhere: tuple[str, ...] = ()  # in what that is not the claim's scale

    def contents(self) -> dict[str, Any]:
        """Plain values, for JSON and tables."""
        claim = self.claim
        parts = [
            {
                "label": x.label,
                "claimed": x.region,
                "n": x.n,
                "value": x.estimate.value if x.estimate else None,
                "low": x.estimate.low if x.estimate else None,
                "high": x.estimate.high if x.estimate else None,
                "p": x.p,
                "seen": x.seen,
            }
            for x in self.findings
        ]
        return {
            "id": claim.id, "source": claim.source, "sentence": claim.sentence,
            "direction": claim.direction, "margin": claim.margin, "paper": claim.paper,
            "claimed_scale": str(claim.scale), "scale": self.where, "decision": self.decision,
            "reason": self.reason, "parts": parts,
        }  # fmt: skip


def judge(claim: Claim, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """One verdict per setting in which the claim can be asked, at least one.

    Outcomes are compared only if they agree in all settings that the claim does not compare.
    """
    found = []
    groups = _groups(claim, outcomes)
    apart = _apart([key for key, _ in groups])
    for key, group in groups:
        also = "".join(f", {name} {level_text(key[name])}" for name in apart if name in key)
        try:
            if parts := claim.statistic(group):
                found.append(_verdict(claim, parts, also))
        except AmbiguousError as error:
            reason = f"Not comparable: {error}."
            found.append(Verdict(claim, NO_DATA, reason, (), where_text(group) + also))
    if found:
        return found
    if claim.needs:
        return [Verdict(claim, f"needs {claim.needs}", f"It waits for {claim.needs}.")]
    return [Verdict(claim, NO_DATA, f"No cells to compare have {claim.value}.")]


def _groups(
    claim: Claim, outcomes: Sequence[Outcome]
) -> list[tuple[dict[str, Level], list[Outcome]]]:
    """Outcomes that agree in what has to agree, with those settings."""
    found: dict[tuple[tuple[str, Level], ...], list[Outcome]] = {}
    for outcome in outcomes:
        key = tuple(sorted(_shared(claim, outcome.settings).items()))
        found.setdefault(key, []).append(outcome)
    return [(dict(key), group) for key, group in found.items()]


def _apart(keys: list[dict[str, Level]]) -> list[str]:
    """Settings that tell groups apart and are not told anyway."""
    names = dict.fromkeys(name for key in keys for name in key)
    return [
        name
        for name in names
        if name not in (*TOLD, "size", "kind") and len({key.get(name) for key in keys}) > 1
    ]


def _shared(claim: Claim, settings: Mapping[str, Level]) -> dict[str, Level]:
    """The settings that have to agree."""
    return {
        name: level
        for name, level in settings.items()
        if not any(name == x or name.startswith(f"{x}.") for x in claim.compares)
    }


def _verdict(claim: Claim, parts: list[ClaimPart], also: str) -> Verdict:
    used = [outcome for part in parts for outcome in part.used]
    where, findings = where_text(used) + also, tuple(_finding(part) for part in parts)
    fewest = min(len(part.per_seed) for part in parts)
    told = "; ".join(map(str, findings))
    if fewest < FEWEST_SEEDS:
        reason = f"Got {fewest} complete seed{'s' * (fewest != 1)} of the {FEWEST_SEEDS} needed"
        return Verdict(claim, FEW_SEEDS, f"{reason}: {told}.", findings, where)
    holds = all(part.region.holds(_interval(part)) for part in parts)
    level = 1 - 0.05 / len(parts)
    fails = any(part.region.fails(_interval(part, level)) for part in parts)
    seen = "as claimed" if holds else "the opposite" if fails else "open"
    elsewhere = claim.scale.differences(used)
    if len(parts) < claim.num_parts:
        elsewhere.append(f"{len(parts)} of {claim.num_parts} parts")
    if elsewhere:
        reason = f"Seen here: {seen} ({told}); but {', '.join(elsewhere)}."
        return Verdict(claim, NOT_DECIDED, reason, findings, where, tuple(elsewhere))
    decision = SUPPORTED if holds else CONTRADICTED if fails else NOT_DECIDED
    if fewest < claim.scale.seeds and decision != NOT_DECIDED:
        decision = f"{LEANING} {decision}"
        told += f"; a verdict needs {claim.scale.seeds} seeds"
    return Verdict(claim, decision, f"{told[0].upper()}{told[1:]}.", findings, where)


def _finding(part: ClaimPart) -> Finding:
    n = len(part.per_seed)
    if n < 2:
        return Finding(part.label, str(part.region), n, None, None)
    x = _interval(part)
    seen: Seen = "open"
    if part.region.holds(x):
        seen = "as claimed"
    elif part.region.fails(x):
        seen = "the opposite"
    asks_sign = 0.0 in (part.region.low, part.region.high) and n <= MOST_FOR_P
    p = sign_flip_p(list(part.per_seed.values())) if asks_sign else None
    return Finding(part.label, str(part.region), n, x, seen, p)


def _interval(part: ClaimPart, level: float = 0.95) -> Estimate:
    return over_seeds(list(part.per_seed.values()), level)


def where_text(outcomes: Sequence[Outcome]) -> str:
    """The scale that outcomes come from, in words."""

    def told(name: str) -> str:
        found = dict.fromkeys(str(x.settings[name]) for x in outcomes if name in x.settings)
        return ", ".join(found) or ("" if name in OWN else "unknown")

    model, data, epochs, grid, depth, width = map(told, TOLD)
    changed = f"{f', {depth} layers' * bool(depth)}{f', {width} wide' * bool(width)}"
    return f"{model} on {data}, {epochs} epochs at most, {grid} patches{changed}"
