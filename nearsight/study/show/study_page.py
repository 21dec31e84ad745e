"""Write the page of a study: answer, effects, tables and claims, then the report of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from nearsight.explore import explorer_frame
from nearsight.measure.catalogue import MAX_SCORE, heading_of, number_named, numbers_of
from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.study import Contrast, EffectCurve, effect_curves, effect_plot
from nearsight.report.read import Family, evidence_of, grouped_families
from nearsight.report.write import (
    Chapter,
    Column,
    Front,
    NumberStyle,
    Table,
    effect_sentence,
    write_families,
)
from nearsight.stats import Estimate
from nearsight.study.analyse import (
    Course,
    Effect,
    Effects,
    Factorial,
    LoadedStudy,
    PrimaryResult,
    courses,
    effects_by_epoch,
    factorial_groups,
    load_study,
    losses_over_seeds,
    num_simultaneous,
    outcomes,
    primary_result,
    seed_shares,
    simultaneous_estimate,
    study_effects,
    write_summary,
)
from nearsight.study.claims import Finding, Verdict, write_claims
from nearsight.study.show.beside_paper import PAPER_NOTE, paper_tables
from nearsight.study.show.causal_table import seed_losses_table
from nearsight.study.show.effect_tables import (
    cost_table,
    effect_tables,
    effects_note,
    multiplicity,
    simultaneous_note,
)
from nearsight.study.show.origin_table import origin_sentence, origin_table
from nearsight.study.show.paper_items import item_figures, item_tables
from nearsight.study.show.result_tables import NO_PRIMARY, primary_table, share_table

RULE = (
    "A verdict depends only on 95 % intervals over seeds. It is 'supported' or 'contradicted' only "
    "at the claim's own scale and with at least 5 seeds; otherwise the last column says what was "
    "seen here. A claim of no effect is seen as claimed only if the interval lies inside a margin "
    "that was chosen beforehand."
)
CLAIM_COLUMNS = (
    "id", "condition", "settings", "claimed", "seen", "decision", "n", "sentence", "source",
    "reason", "scale",
)  # fmt: skip


def study_report(out: Path, page: Path, formats: Sequence[str] = ()) -> Path:
    """Write the page, summary.json and claims.json of the finished cells of a study folder."""
    study = load_study(out)
    return write_page(study, study_effects(study), page, formats)


def write_page(
    study: LoadedStudy, effects: Sequence[Effects], page: Path, formats: Sequence[str] = ()
) -> Path:
    """Write the page, summary.json and claims.json of a study whose effects are known."""
    write_summary(study, effects)
    families = grouped_families([evidence_of(x.files) for x in study.finished])
    front = study_front(study, families, effects)
    return write_families(families, page, formats, front, explorer_frame(families))


def study_front(study: LoadedStudy, families: list[Family], effects: Sequence[Effects]) -> Front:
    """Return what the page shows before the figures of the runs."""
    seen = [x for x in effects if len(x.at_end.seeds) > 1]
    _, verdicts = write_claims(study)
    scale = scale_text(families)
    of_head = [x for x in seen if x.value == MAX_SCORE.name]  # where there are several grids
    of_head = of_head or [x for x in seen if x.value == "min_mad"]
    followed, found = courses(study), outcomes(study)
    curves = effect_courses(followed) if seen else []
    seeds = f"{len(seen[0].at_end.seeds)} seeds" if seen else ""
    primary, shares = primary_result(study), seed_shares(found)
    name, of_paper = study.record.study, paper_tables(families)
    first, lost = (primary_table(primary),) if primary else (), losses_over_seeds(study)
    return Front(
        question=study.record.question,
        answers=(
            *([primary_answer(primary)] if primary else []),
            *((answer(of_head, scale, num_simultaneous(effects)),) if of_head else ()),
            *([NO_PRIMARY] if seen and not primary else []),
            *filter(None, (origin_sentence(study),)),
        ),
        drawings=(
            *item_figures(name, found, followed, scale),
            *effect_figure(seen, f"{scale} · {seeds}"),
            *effect_curves(curves, "effect-curves", f"{scale} · {seeds}"),
        ),
        chapters=(
            Chapter("Primary contrast", first),
            Chapter("Local and identity heads", (share_table(shares),) if shares else ()),
            Chapter(
                "Beside the paper",
                (*of_paper, *item_tables(name, found, f"{scale}.")),
                PAPER_NOTE if of_paper else "",
            ),
            Chapter("Effects", effect_tables(effects), effects_note(effects) if effects else ""),
            Chapter("Is locality used?", (seed_losses_table(lost),) if lost else ()),
            Chapter("Length and cost", (cost_table(families),)),
            claims_chapter(verdicts),
            Chapter("Where the cells come from", (origin_table(study),)),
        ),
    )


def primary_answer(found: PrimaryResult) -> str:
    """Describe in a sentence the result of the comparison that was chosen before the study ran."""
    x, contrast = found.estimate, found.contrast
    if x is None:
        return (
            f"The comparison that this study was made for ({contrast}) needs at least two seeds "
            f"with all its runs, but there are {len(found.per_seed)}."
        )
    number = number_named(contrast.value)
    style = NumberStyle("points" if number.percent else "number", number.digits, plus=True)
    size = style.value(abs(x.value)).removeprefix("+") + " percentage points" * number.percent
    where = "".join(f", {words}" for words in contrast.restrictions)
    p = "" if found.p is None else f", exact p = {found.p:.2g}"
    heading = heading_of(contrast.value)
    sentence = (
        f"{heading[0].upper()}{heading[1:]} is {size} {'lower' if x.value < 0 else 'higher'} with "
        f"{contrast.side(contrast.high)} than with {contrast.side(contrast.low)}{where} "
        f"({style.interval(x)}, 95 % over {x.n} seeds{p})."
    )
    clear = x.low > 0 or x.high < 0
    doubt = "" if clear else " The interval includes 0, so even the direction is uncertain."
    return f"{sentence}{doubt} This comparison was chosen before the study ran."


def answer(found: Sequence[Effects], scale: str, num: int) -> str:
    """Describe the main effects on the most local head, at the end and at matched steps.

    Args:
        found: The effects on min MAD, or on the score of that head.
        scale: The models, the data and the length of training.
        num: The number of simultaneous intervals.
    """
    effects = _main_effects([x.at_end for x in found], num)
    number: Literal["MAD", "score"] = "score" if found[0].value == MAX_SCORE.name else "MAD"
    shown = _clear_effects(effects, number)
    sentences = [*shown, *_unclear_effects(effects, number, others=bool(shown))]
    if len(found[0].at_end.levels) > 1:
        sentences.append("Every effect is averaged over the other factors.")
    if matched := [x.at_steps[1] for x in found if x.at_steps]:
        then = _main_effects(matched, num)
        clear = _clear_effects(then, number)
        none = f"no factor shows an effect{'' if shown else ' either'}."
        told = f": {' '.join(clear)}" if clear else f", {none}"
        sentences.append(f"At the last epoch that all runs reached{told}")
    sentences.append(
        f"The intervals are simultaneous: in 95 of 100 studies all {num} of them contain the true "
        f"effects. All this is about {scale}."
    )
    return " ".join(sentences)


def _main_effects(found: Sequence[Factorial], num: int) -> list[tuple[str, Estimate]]:
    """Return names of main effects with simultaneous intervals."""
    return [
        (_subject(of, effect), x)
        for of in found
        for effect in of.effects
        if _is_main(effect) and (x := simultaneous_estimate(effect, num)) is not None
    ]


def _includes_zero(x: Estimate) -> bool:
    return x.low <= 0 <= x.high


def _clear_effects(
    effects: Sequence[tuple[str, Estimate]], number: Literal["MAD", "score"]
) -> list[str]:
    """Describe in a sentence each the effects whose intervals exclude 0."""
    return [effect_sentence(name, x, number=number) for name, x in effects if not _includes_zero(x)]


def _unclear_effects(
    effects: Sequence[tuple[str, Estimate]], number: Literal["MAD", "score"], others: bool
) -> list[str]:
    """Describe in one sentence the effects whose intervals include 0.

    Args:
        effects: The main effects by name.
        number: The number that they are effects on.
        others: Whether other effects have intervals that exclude 0.
    """
    style = NumberStyle(plus=True)
    listed = [
        f"by {style.value(x.value)} ({style.interval(x)}) with {name}"
        for name, x in effects
        if _includes_zero(x)
    ]
    if not listed:
        return []
    words = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
    seeds = effects[0][1].n
    who = "of the other factors " if others else ""
    return [
        f"These {seeds} seeds show no effect {who}on the most local head: its {number} changes "
        f"{words}."
    ]


def _subject(of: Factorial, effect: Effect) -> str:
    """Return the name of a main effect, with the levels of factors that do not vary."""
    level = of.name(effect).removeprefix(effect.label).removeprefix(", ")
    return f"{effect.label} (at {level})" if level else effect.label


def _is_main(effect: Effect) -> bool:
    return len(effect.factors) == 1


def scale_text(families: list[Family]) -> str:
    """Describe the models and the length of training."""
    return "; ".join(f"{family.name}, {family.length_text}" for family in families)


def effect_figure(found: Sequence[Effects], subtitle: str) -> list[Drawing]:
    """Return the figure of effects at the end and at matched steps."""
    by_value: dict[str, list[Contrast]] = {}
    num = num_simultaneous(found)
    for x in found:
        for effect in x.at_end.effects:
            then = x.at_steps[1].effect(*effect.factors) if x.at_steps else None
            contrast = Contrast(
                x.at_end.name(effect),
                effect.estimate,
                then.estimate if then else None,
                simultaneous_estimate(effect, num),
                simultaneous_estimate(then, num) if then else None,
            )
            by_value.setdefault(x.value, []).append(contrast)
    if not by_value:
        return []
    words = f"{subtitle} · on minus off, mean over the other factors"
    notes = [simultaneous_note(found), *multiplicity(found)]
    return [effect_plot(by_value, "effects", words, notes)]


def effect_courses(found: Sequence[Course]) -> list[EffectCurve]:
    """Return the main effects at every epoch at which all runs of a factorial were measured."""
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
    """Return the chapter of the claims that the study has numbers for; empty if there are none."""
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
    """Collect a claim and its numbers for the page, with its scale if that is not the usual one."""
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
