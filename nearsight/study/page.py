"""The report of a study: its answer, effects, tables and claims, then the page of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nearsight.report.answer import difference_text
from nearsight.report.conditions import Family
from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.effects import Contrast, effect_plot
from nearsight.report.front import Chapter, Front
from nearsight.report.grouping import read_families
from nearsight.report.page import write_report
from nearsight.study.claims_page import claims_section
from nearsight.study.extremes import min_mad_effects
from nearsight.study.factorial import Factorial
from nearsight.study.folder import cell_folder, is_finished, read_cells, read_study
from nearsight.study.paper_sheets import PAPER_NOTE, paper_sheets
from nearsight.study.results import courses, outcomes
from nearsight.study.sheets import cost_sheet, effect_sheets, effects_note
from nearsight.study.summary import (
    factorials,
    loss_matched_factorials,
    matched_factorials,
    write_claims,
    write_summary,
)


def study_report(out: Path, page: Path, formats: Sequence[str] = ()) -> Path:
    """Write the page of what is finished in a study folder, its summary.json and claims.json."""
    write_summary(out)
    folders = [cell_folder(out, cell) for cell in read_cells(out)]
    done = [folder for folder in folders if is_finished(folder)]
    return write_report(done, page, formats, study_front(out, read_families(done)))


def study_front(out: Path, families: list[Family]) -> Front:
    """What the page shows before the figures of the runs."""
    at_end = factorials(outcomes(out))
    on_the_way = courses(out)
    at_steps = matched_factorials(on_the_way)
    of_min_mad = [x for x in at_end if x.value == "min_mad"]
    extremes = min_mad_effects(out, of_min_mad[0]) if of_min_mad else {}
    found = effect_sheets(at_end, at_steps, loss_matched_factorials(on_the_way), extremes)
    _, verdicts = write_claims(out)
    scale = scale_text(families)
    return Front(
        question=read_study(out).get("question", ""),
        answers=tuple(answer(of, families) for of in of_min_mad if len(of.seeds) > 1),
        drawings=tuple(effect_figure(at_end, {of.value: of for _, of in at_steps}, scale)),
        chapters=(
            Chapter("Beside the paper", paper_sheets(families), PAPER_NOTE),
            Chapter("Effects", found, effects_note(at_end[0]) if at_end else ""),
            Chapter("Length and cost", (cost_sheet(families),)),
        ),
        claims=claims_section(verdicts),
    )


def answer(of: Factorial, families: list[Family]) -> str:
    """The main effects on the most local head, in a sentence with the scale."""
    told = [
        f"{effect.label} {difference_text(effect.estimate)}"
        for effect in of.effects
        if len(effect.factors) == 1 and effect.estimate is not None
    ]
    return (
        "What switching a factor on changes in the MAD of the most local head, averaged over the "
        f"other factors and paired by seed: {'; '.join(told)}. Scale: {scale_text(families)}."
    )


def scale_text(families: list[Family]) -> str:
    return "; ".join(f"{family.name}, {family.length_text}" for family in families)


def effect_figure(
    at_end: Sequence[Factorial], matched: Mapping[str, Factorial], scale: str
) -> list[Drawing]:
    """The figure of effects, where the study is a factorial with two complete seeds at least."""
    found = {
        of.value: [
            Contrast(
                effect.label,
                effect.estimate,
                matched[of.value].effect(*effect.factors).estimate if of.value in matched else None,
            )
            for effect in of.effects
        ]
        for of in at_end
        if len(of.seeds) > 1
    }
    if not found:
        return []
    subtitle = f"{scale} · {len(at_end[0].seeds)} seeds · on minus off, mean over the others"
    return [effect_plot(found, "effects", subtitle, at_end[0].notes[1:])]
