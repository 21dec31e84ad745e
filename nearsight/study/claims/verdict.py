"""Judge claims by intervals over seeds, and only at the scale of the claim.

A claim is supported if the 95 % t-interval of each of its parts lies where the claim says. All
parts have to lie there, so no correction is needed. A claim is contradicted if the interval of one
part lies wholly elsewhere. With k parts there are k chances for this, so that interval has the
level 1 - 0.05 / k. Everything else is not decided, and neither is anything at another scale than
the claim's. Both verdicts need 5 seeds. With 3 or 4 seeds, the verdict only leans to one of them
and gives the interval and the exact p value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearsight.stats import MOST_FOR_P, Estimate, over_seeds, sign_flip_p
from nearsight.study.analyse import Outcome
from nearsight.study.claims.claim import FEWEST_SEEDS, Claim, ClaimPart, Unit
from nearsight.study.claims.comparisons import AmbiguousError
from nearsight.study.claims.paper_recipe import is_below
from nearsight.study.design import Level, level_text

SUPPORTED, CONTRADICTED = "supported", "contradicted"
LEANING = "undecided, leaning to"  # followed by one of the two above
NO_SEEDS = "no seed can change it"
NOT_DECIDED, FEW_SEEDS, NO_DATA = "not decided at this scale", "not enough seeds", "no data"

TOLD = ("model.name", "data.name", "epochs", "grid", "model.depth", "model.width")  # a scale
# These follow from other settings that are shown.
UNTOLD = ("size", "kind", "warmup_epochs", "patience", "epochs", "num_classes", "labelsmoothing")
OWN = ("model.depth", "model.width")  # absent if they are the model's own
Seen = Literal["as claimed", "the opposite", "open"]


@dataclass(frozen=True)
class Finding:
    """The result of a study for one part of a claim; fewer than two seeds give no estimate."""

    label: str
    region: str
    n: int
    estimate: Estimate | None
    seen: Seen | None
    p: float | None = None  # sign-flip test against 0; None if not asked
    unit: Unit = ""  # if "points", the number is a share that is shown in points

    @property
    def number(self) -> str:
        """The value and its interval as text, with their unit."""
        if self.estimate is None:
            return f"{self.n} seed{'s' * (self.n != 1)}, no interval"
        x = self.estimate
        if not self.n:
            return number_text(x.value, self.unit)
        ends = f"{number_text(x.low, self.unit, False)} to {number_text(x.high, self.unit, False)}"
        return f"{number_text(x.value, self.unit)} ({ends})"

    def __str__(self) -> str:
        if self.estimate is None or not self.n:
            return f"{self.label}: {self.number}" + (
                f", claimed {self.region}: {self.seen}" if self.seen else ""
            )
        number = self.number[:-1]  # without the bracket
        return (
            f"{self.label}: {number}, n = {self.n} seeds"
            f"{'' if self.p is None else f', exact p = {self.p:.2g}'}), "
            f"claimed {self.region}: {self.seen}"
        )


def number_text(value: float, unit: Unit, named: bool = True) -> str:
    """Return a number with its unit; accuracy in percent or percentage points.

    >>> number_text(0.0123, "points"), number_text(0.512, "percent"), number_text(0.103, "")
    ('1.23 points', '51.2 %', '0.103')
    """
    if not unit:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    text = f"{100 * value:.3g}"
    return f"{text} {'%' if unit == 'percent' else unit}" if named else text


@dataclass(frozen=True)
class Verdict:
    """A decision on a claim, with its numbers and their scale."""

    claim: Claim
    decision: str  # one of the five above, or "needs …"
    reason: str  # one or more sentences
    findings: tuple[Finding, ...] = ()
    where: str = ""  # the scale of the outcomes
    elsewhere: tuple[str, ...] = ()  # how that scale differs from the claim's
    assumed: tuple[str, ...] = ()  # values of the recipe that the paper does not give
    scale: str = ""  # like ``where``, without the settings that distinguish the verdicts
    settings: str = ""  # what distinguishes this verdict from others on the same claim

    @property
    def n(self) -> int | None:
        """The fewest seeds of a part; None without seeds, or if no seed can change the verdict."""
        return min((x.n for x in self.findings), default=None) or None

    @property
    def condition(self) -> str:
        """The label of the deciding part of the claim, and the number of other parts."""
        part = self._deciding
        if part is None:
            return ""
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return f"{part.label}{more}"

    @property
    def claimed(self) -> str:
        """The region in which the number of the deciding part should lie."""
        return self._deciding.region if self._deciding else self.claim.direction

    @property
    def seen(self) -> str:
        """The number of the deciding part, with its interval."""
        return self._deciding.number if self._deciding else ""

    @property
    def _deciding(self) -> Finding | None:
        """The part that contradicts the claim most; the first if there are several."""
        order = ("the opposite", "open", None, "as claimed")
        return min(self.findings, key=lambda x: order.index(x.seen), default=None)

    def contents(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON and tables."""
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
                "unit": x.unit,
                "seen": x.seen,
            }
            for x in self.findings
        ]
        return {
            "id": claim.id, "source": claim.source, "sentence": claim.sentence,
            "direction": claim.direction, "margin": claim.margin, "paper": claim.paper,
            "claimed_scale": str(claim.scale or "no seed can change it"), "scale": self.where,
            "settings": self.settings, "condition": self.condition, "claimed": self.claimed,
            "seen": self.seen, "n": self.n, "assumed": list(self.assumed),
            "decision": self.decision, "reason": self.reason, "parts": parts,
        }  # fmt: skip


def judge(claim: Claim, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Return the verdicts on a claim: one for each group of comparable cells, but at least one.

    Outcomes are compared only if they agree in all settings that the claim does not vary.
    """
    if claim.facts is not None:
        return [judge_facts(claim, claim.facts())]
    found = []
    groups = _groups(claim, outcomes)
    keys = [key for key, _ in groups]
    apart, untold = _apart(keys), _apart(keys, (*TOLD, *UNTOLD))
    for key, group in groups:
        also = ", ".join(f"{name} {level_text(key[name])}" for name in untold if name in key)
        told = ", ".join(
            f"{name.rpartition('.')[2]} {level_text(key[name])}" for name in apart if name in key
        )
        try:
            if parts := claim.statistic(group):
                found.append(_verdict(claim, parts, also, told))
        except AmbiguousError as error:
            reason = f"Not comparable: {error}."
            where = where_text(group, also)
            found.append(Verdict(claim, NO_DATA, reason, (), where, settings=told))
    if found:
        return found
    if claim.needs:
        return [Verdict(claim, f"needs {claim.needs}", f"It waits for {claim.needs}.")]
    advice = ""
    if claim.evaluated:
        advice = (
            f" A recipe whose stages include evaluate, with tasks={claim.evaluated.task}, gives it."
        )
    return [Verdict(claim, NO_DATA, f"No cells to compare have {claim.value}.{advice}")]


def judge_facts(claim: Claim, numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a claim whose numbers do not depend on seeds.

    Such numbers are computed from the paper's own table, or counted on a built model. If a number
    is not known, the claim is undecided.
    """
    parts = claim.statistic([Outcome({}, 0, numbers)])
    findings = tuple(_fact(part) for part in parts)
    told = "; ".join(map(str, findings)) or "no number is known"
    seen = {x.seen for x in findings}
    if "the opposite" in seen:
        decision = CONTRADICTED
    elif len(parts) < claim.num_parts or seen != {"as claimed"}:
        decision = NOT_DECIDED
    else:
        decision = SUPPORTED
    return Verdict(claim, decision, f"{told[0].upper()}{told[1:]}.", findings, NO_SEEDS)


def _fact(part: ClaimPart) -> Finding:
    (value,) = part.per_seed.values()
    x = Estimate(value, value, value, 0, "none")
    seen: Seen = "as claimed" if part.region.holds(x) else "the opposite"
    return Finding(part.label, part.claimed, 0, x, seen, unit=part.unit)


def _groups(
    claim: Claim, outcomes: Sequence[Outcome]
) -> list[tuple[dict[str, Level], list[Outcome]]]:
    """Group the outcomes that agree in all settings that the claim does not compare."""
    found: dict[tuple[tuple[str, Level], ...], list[Outcome]] = {}
    for outcome in outcomes:
        key = tuple(sorted(_shared(claim, outcome.settings).items()))
        found.setdefault(key, []).append(outcome)
    return [(dict(key), group) for key, group in found.items()]


def _apart(keys: list[dict[str, Level]], left_out: Sequence[str] = UNTOLD) -> list[str]:
    """Return the settings in which groups differ, without those ``left_out``.

    The settings of a part that is on or off, such as ``cutmix.alpha``, are compared only between
    groups in which the part is on, because the part itself already distinguishes the others.
    """
    names = dict.fromkeys(name for key in keys for name in key)
    switches = {name for key in keys for name, level in key.items() if isinstance(level, bool)}

    def levels(name: str) -> set[Level | None]:
        part = name.rpartition(".")[0]
        return {key.get(name) for key in keys if part not in switches or key.get(part)}

    return [name for name in names if name not in left_out and len(levels(name)) > 1]


def _shared(claim: Claim, settings: Mapping[str, Level]) -> dict[str, Level]:
    """Return the settings in which outcomes must agree to be compared."""
    return {name: level for name, level in settings.items() if not is_below(name, claim.compares)}


def _verdict(claim: Claim, parts: list[ClaimPart], also: str, settings: str) -> Verdict:
    scale = claim.scale
    assert scale is not None, "a claim without a scale has facts"
    used = [outcome for part in parts for outcome in part.used]
    findings = tuple(_finding(part) for part in parts)
    known: dict[str, Any] = {
        "where": where_text(used, also),
        "scale": where_text(used),
        "assumed": scale.assumed(used),
        "settings": settings,
    }
    fewest = min(len(part.per_seed) for part in parts)
    told = "; ".join(map(str, findings))
    if fewest < FEWEST_SEEDS:
        reason = f"A verdict needs {FEWEST_SEEDS} complete seeds, but there are only {fewest}"
        return Verdict(claim, FEW_SEEDS, f"{reason}: {told}.", findings, **known)
    holds = all(part.region.holds(_interval(part)) for part in parts)
    level = 1 - 0.05 / len(parts)
    fails = any(part.region.fails(_interval(part, level)) for part in parts)
    seen = "as claimed" if holds else "the opposite" if fails else "open"
    elsewhere = scale.differences(used, claim.compares)
    if claim.evaluated:
        elsewhere += claim.evaluated.differences(claim.value, used)
    if len(parts) < claim.num_parts:
        elsewhere.append(f"{len(parts)} of {claim.num_parts} parts")
    if elsewhere:
        reason = f"Seen here: {seen} ({told}); but {', '.join(elsewhere)}."
        return Verdict(claim, NOT_DECIDED, reason, findings, elsewhere=tuple(elsewhere), **known)
    decision = SUPPORTED if holds else CONTRADICTED if fails else NOT_DECIDED
    if fewest < scale.seeds and decision != NOT_DECIDED:
        decision = f"{LEANING} {decision}"
        told += f"; a verdict needs {scale.seeds} seeds"
    if known["assumed"]:
        told += f". We assumed, as the paper does not say: {', '.join(known['assumed'])}"
    return Verdict(claim, decision, f"{told[0].upper()}{told[1:]}.", findings, **known)


def _finding(part: ClaimPart) -> Finding:
    n = len(part.per_seed)
    if n < 2:
        return Finding(part.label, part.claimed, n, None, None, unit=part.unit)
    x = _interval(part)
    seen: Seen = "open"
    if part.region.holds(x):
        seen = "as claimed"
    elif part.region.fails(x):
        seen = "the opposite"
    asks_sign = 0.0 in (part.region.low, part.region.high) and n <= MOST_FOR_P
    p = sign_flip_p(list(part.per_seed.values())) if asks_sign else None
    return Finding(part.label, part.claimed, n, x, seen, p, part.unit)


def _interval(part: ClaimPart, level: float = 0.95) -> Estimate:
    return over_seeds(list(part.per_seed.values()), level)


def where_text(outcomes: Sequence[Outcome], also: str = "") -> str:
    """Describe the scale of outcomes; ``also`` describes what distinguishes them from others."""

    def told(name: str) -> str:
        found = dict.fromkeys(str(x.settings[name]) for x in outcomes if name in x.settings)
        return ", ".join(found) or ("" if name in OWN else "unknown")

    model, data, epochs, grid, depth, width = map(told, TOLD)
    rest = f", {also}" if also else ""
    changed = f"{f', {depth} layers' * bool(depth)}{f', {width} wide' * bool(width)}"
    return f"{model} on {data}, {epochs} epochs at most, {grid} patches{changed}{rest}"
