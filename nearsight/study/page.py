"""The report of a study: the page of its runs, with the effects of its factors on top."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearsight.report.figures.drawing import Drawing
from nearsight.report.figures.effects import Contrast, effect_plot
from nearsight.report.page import write_report
from nearsight.study.folder import cell_folder, is_finished, read_cells, read_study
from nearsight.study.results import courses, outcomes
from nearsight.study.summary import factorials, matched_factorials, write_summary


def study_report(out: Path, page: Path, formats: Sequence[str] = ()) -> Path:
    """Write the page of what is finished in a study folder, and its summary.json."""
    write_summary(out)
    folders = [cell_folder(out, cell) for cell in read_cells(out)]
    done = [folder for folder in folders if is_finished(folder)]
    return write_report(done, page, formats, first=effects(out))


def effects(out: Path) -> list[Drawing]:
    """The figure of effects, where the study is a factorial with two complete seeds at least."""
    at_end = {x.value: x for x in factorials(outcomes(out))}
    matched = {x.value: x for _, x in matched_factorials(courses(out))}
    found = {
        value: [
            Contrast(
                effect.label,
                effect.estimate,
                matched[value].effect(*effect.factors).estimate if value in matched else None,
            )
            for effect in of.effects
        ]
        for value, of in at_end.items()
        if len(of.seeds) > 1
    }
    if not found:
        return []
    notes = next(iter(at_end.values())).notes[1:]
    seeds = len(next(iter(at_end.values())).seeds)
    subtitle = f"{read_study(out)['study']} · {seeds} seeds · on minus off, mean over the others"
    return [effect_plot(found, "effects", subtitle, notes)]
