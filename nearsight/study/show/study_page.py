"""The report of a study: its answer, effects, tables and claims, then the page of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearsight.explore import explorer_frame
from nearsight.measure.catalogue import numbers_of
from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.study import Contrast, EffectCurve, effect_curves, effect_plot
from nearsight.report.read import Family, evidence_of, grouped_families
from nearsight.report.write import Chapter, Column, Front, Table, effect_sentence, write_families
from nearsight.study.analyse import (
    Course,
    Effect,
    Effects,
    Factorial,
    LoadedStudy,
    courses,
    effects_by_epoch,
    factorial_groups,
    load_study,
    study_effects,
    write_summary,
)
from nearsight.study.claims import Finding, Verdict, write_claims
from nearsight.study.show.beside_paper import PAPER_NOTE, paper_tables
from nearsight.study.show.effect_tables import cost_table, effect_tables, effects_note, multiplicity

RULE = (
    "A verdict comes from 95 % intervals over seeds alone. It is 'supported' or 'contradicted' "
    "only at the claim's own scale and with at least 5 seeds; elsewhere the last column says what "
    "was seen. A claim of no effect is seen as claimed only if the interval lies inside the margin "
    "stated beforehand."
)
CLAIM_COLUMNS = (
    "id", "condition", "settings", "claimed", "seen", "decision", "n", "sentence", "source",
    "reason", "scale",
)  # fmt: skip


def study_report(out: Path, page: Path, formats: Sequence[str] = ()) -> Path:
    """Write the page of what is finished in a study folder, its summary.json and claims.json."""
    study = load_study(out)
    effects = study_effects(study)
    write_summary(study, effects)
    families = grouped_families([evidence_of(x.files) for x in study.finished])
    front = study_front(study, families, effects)
    return write_families(families, page, formats, front, explorer_frame(families))


def study_front(study: LoadedStudy, families: list[Family], effects: Sequence[Effects]) -> Front:
    """What the page shows before the figures of the runs."""
    seen = [x for x in effects if len(x.at_end.seeds) > 1]
    _, verdicts = write_claims(study)
    scale = scale_text(families)
    of_min_mad = [x for x in seen if x.value == "min_mad"]
    curves = effect_courses(courses(study)) if seen else []
    seeds = f"{len(seen[0].at_end.seeds)} seeds" if seen else ""
    return Front(
        question=study.record.question,
        answers=(answer(of_min_mad, scale),) if of_min_mad else (),
        drawings=(
            *effect_figure(seen, f"{scale} · {seeds}"),
            *effect_curves(curves, "effect-curves", f"{scale} · {seeds}"),
        ),
        chapters=(
            Chapter("Beside the paper", paper_tables(families), PAPER_NOTE),
            Chapter("Effects", effect_tables(effects), effects_note(effects) if effects else ""),
            Chapter("Length and cost", (cost_table(families),)),
            claims_chapter(verdicts),
        ),
    )


def answer(found: Sequence[Effects], scale: str) -> str:
    """The main effects on the most local head, and those at matched steps; with the scale."""
    told = _told([x.at_end for x in found])
    matched = [x.at_steps[1] for x in found if x.at_steps]
    clear = _told(matched, clear=True)
    several = len(found[0].at_end.levels) > 1
    averaged = " Every effect is averaged over the other factors." if several else ""
    steps = ""
    if matched:
        none = "no factor changes it by more than the seeds do."
        steps = f" At matched steps: {' '.join(clear) or none}"
    return f"{' '.join(told)}{averaged}{steps} Scale: {scale}."


def _told(found: Sequence[Factorial], clear: bool = False) -> list[str]:
    """Main effects with their intervals; ``clear``: only those whose interval excludes 0."""
    return [
        effect_sentence(_subject(of, effect), x)
        for of in found
        for effect in of.effects
        if _is_main(effect)
        and (x := effect.estimate) is not None
        and not (clear and x.low <= 0 <= x.high)
    ]


def _subject(of: Factorial, effect: Effect) -> str:
    """What is switched on, and in brackets at which level of the factors that do not vary."""
    level = of.name(effect).removeprefix(effect.label).removeprefix(", ")
    return f"{effect.label} (at {level})" if level else effect.label


def _is_main(effect: Effect) -> bool:
    return len(effect.factors) == 1


def scale_text(families: list[Family]) -> str:
    return "; ".join(f"{family.name}, {family.length_text}" for family in families)


def effect_figure(found: Sequence[Effects], subtitle: str) -> list[Drawing]:
    """The figure of effects at the end and at matched steps."""
    by_value: dict[str, list[Contrast]] = {}
    for x in found:
        for effect in x.at_end.effects:
            then = x.at_steps[1].effect(*effect.factors).estimate if x.at_steps else None
            contrast = Contrast(x.at_end.name(effect), effect.estimate, then)
            by_value.setdefault(x.value, []).append(contrast)
    if not by_value:
        return []
    words = f"{subtitle} · on minus off, mean over the others"
    return [effect_plot(by_value, "effects", words, multiplicity(found))]


def effect_courses(found: Sequence[Course]) -> list[EffectCurve]:
    """The main effects at every epoch at which all runs of a factorial were seen."""
    curves: dict[tuple[str, str, str], EffectCurve] = {}
    for value in (x.name for x in numbers_of("mad")):
        for group in factorial_groups(found).values():
            for epoch, of in effects_by_epoch(group, value):
                where = ", ".join(map(str, of.fixed.values()))
                for effect in filter(_is_main, of.effects):
                    if effect.estimate is not None:
                        curve = EffectCurve(value, where, effect.label, [])
                        key = (value, where, effect.label)
                        curves.setdefault(key, curve).points.append((epoch, effect.estimate))
    return list(curves.values())


def claims_chapter(verdicts: Sequence[Verdict]) -> Chapter:
    """Show the claims that the study has numbers for; the chapter is empty if there are none."""
    title, shown = "The papers' claims", [x for x in verdicts if x.findings]
    if not shown:
        return Chapter(title, ())
    without = len({x.claim.id for x in verdicts} - {x.claim.id for x in shown})
    usual, _ = Counter(map(_scale, shown)).most_common(1)[0]
    rest = f"{without} further claims need data that this study does not have." if without else ""
    claims = [_claim_values(verdict, usual) for verdict in shown]
    return Chapter(
        title,
        (claims_table(shown),),
        note=RULE,
        anchor="claims",
        template="claims.html",
        values={"usual_scale": usual, "claims": claims, "rest": rest},
    )


def _scale(verdict: Verdict) -> str:
    if not verdict.elsewhere:
        return f"Scale: {verdict.where}, as claimed."
    return f"Scale: {verdict.where}. Not as claimed: {', '.join(verdict.elsewhere)}."


def _claim_values(verdict: Verdict, usual: str) -> dict[str, Any]:
    """Collect a claim and its numbers for the page; its scale only where it is not the usual."""
    scale = "" if _scale(verdict) == usual else f" {_scale(verdict)}"
    return {
        "sentence": verdict.claim.sentence,
        "decision": verdict.decision,
        "source": f"{verdict.claim.source}.{scale}",
        "findings": [_finding_values(x) for x in verdict.findings],
    }


def _finding_values(x: Finding) -> dict[str, str]:
    here, bracket, ends = x.number.partition(" (")
    interval = f"{ends.removesuffix(')')}, n = {x.n}" if bracket else ""
    texts = {"label": x.label, "here": here, "interval": interval, "region": x.region}
    return {name: text.replace("-", "−") if name in ("here", "interval") else text
            for name, text in texts.items()} | {"seen": x.seen or "–"}  # fmt: skip


def claims_table(verdicts: Sequence[Verdict]) -> Table:
    """Tabulate the claims for files: a row per claim."""
    contents = [verdict.contents() for verdict in verdicts]
    rows = [
        tuple("" if row[name] is None else str(row[name]) for name in CLAIM_COLUMNS)
        for row in contents
    ]
    return Table("claims", tuple(Column(x, x) for x in CLAIM_COLUMNS), rows, "The papers' claims")
