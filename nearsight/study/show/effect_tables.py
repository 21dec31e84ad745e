"""Tabulate the effects of a study's factors, and the length and cost of its conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearsight.measure.catalogue import MAX_SCORE, heading_of, number_named
from nearsight.report.read import ConditionRuns, Evidence, Family
from nearsight.report.write import Cell, Column, Kind, Table
from nearsight.stats import over_seeds
from nearsight.study.analyse import (
    Effect,
    Effects,
    Factorial,
    num_simultaneous,
    simultaneous_estimate,
)
from nearsight.study.show.result_tables import LOG_NOTE

NOTES = {
    "accuracy": "In percentage points. Effects at matched steps and loss are on validation images. "
    "The interval over seeds and images is a 95 % interval of its own, not a simultaneous one.",
    "min_mad": "For the interval over seeds and images, each half of the images uses the head that "
    "the other half selects. It is a 95 % interval of its own, not a simultaneous one.",
    "log_min_mad": LOG_NOTE,
}
MATCHED = (
    "Matched steps are the last epoch that all runs reached. The matched clean loss is the lowest "
    "cross-entropy that all runs reached on the same training images, without augmentation and "
    "with hard labels."
)
STOPPED = (
    "'As if stopped early' takes every run at the epoch that early stopping would have kept, and "
    "its attention at the last measurement up to that epoch. An effect that appears there but not "
    "at matched steps comes from the length of training."
)

SEVERAL_GRIDS = (
    "The models have several grids of patches. MAD depends on the grid, so to compare grids read "
    "the effects on the score, which is 1 − MAD / MAD of uniform attention on the same grid."
)


def effect_tables(found: Sequence[Effects]) -> tuple[Table, ...]:
    """Return a table for each number, with every effect at the end, at matched steps and loss."""
    by_value: dict[str, list[Effects]] = {}
    for effects in found:
        if effects.at_end.seeds:
            by_value.setdefault(effects.value, []).append(effects)
    num = num_simultaneous(found)
    return tuple(_effects(value, of_value, num) for value, of_value in by_value.items())


def effects_note(found: Sequence[Effects]) -> str:
    """Return the note that applies to the tables of all numbers."""
    pairing = found[0].at_end.pairing
    said = [f"{pairing[0].upper()}{pairing[1:]}.", simultaneous_note(found)]
    stopped = [STOPPED] if any(x.at_stop for x in found) else []
    if any(x.value == MAX_SCORE.name for x in found):
        said.append(SEVERAL_GRIDS)
    return " ".join([*said, *multiplicity(found), MATCHED, *stopped])


def simultaneous_note(found: Sequence[Effects]) -> str:
    """Say how many intervals are simultaneous, and what that means."""
    return (
        f"The {num_simultaneous(found)} intervals over seeds are simultaneous (Bonferroni): in 95 "
        "of 100 studies all of them contain the true effect. summary.json also has each effect's "
        "own 95 % interval."
    )


def multiplicity(found: Sequence[Effects]) -> list[str]:
    """Describe in sentences how many contrasts there are, and which p values are adjusted."""
    each = found[0].at_end
    levels = {tuple(x.at_end.fixed.values()) for x in found}
    if len(levels) == 1:
        return each.notes[1:]
    factors = ", ".join(each.fixed)
    said = (
        f"There are {len(levels)} factorials, one at each level of {factors}; p values are not "
        "adjusted for their number."
    )
    return [said, *each.notes[1:]]


def _effects(value: str, found: Sequence[Effects], num: int) -> Table:
    number = number_named(value)
    kind: Kind = "share" if number.percent else "number"
    digits = number.digits
    columns = [Column("effect", "effect"), Column("at the end", "end", kind, digits)]
    if any(x.over_images for x in found):
        text = "at the end, seeds and images"
        columns.append(Column(text, "end_seeds_and_images", kind, digits))
    if any(x.at_steps for x in found):
        told = _matched_heading("epoch", [x.at_steps and str(x.at_steps[0]) for x in found])
        columns.append(Column(told, "matched_steps", kind, digits))
    if any(x.at_loss for x in found):
        losses = [x.at_loss and f"{x.at_loss[0]:.2f}" for x in found]
        told = _matched_heading("clean training loss", losses)
        columns.append(Column(told, "matched_loss", kind, digits))
    if any(x.at_stop for x in found):
        patience = {x.at_stop[0] for x in found if x.at_stop}.pop()
        told = f"as if stopped early (patience {patience})"
        columns.append(Column(told, "virtual_stop", kind, digits))
    if any(effect.holm_p is not None for x in found for effect in x.at_end.effects):
        columns.append(Column("Holm's p", "holm_p", "number"))
    names = [column.name for column in columns]
    rows = [_row(x, effect, names, num) for x in found for effect in x.at_end.effects]
    return Table(
        key=f"effects-{value}".replace("_", "-"),
        title=f"Effects on {heading_of(value)}",
        columns=tuple(columns),
        rows=rows,
        note=NOTES.get(value, ""),
    )


def _matched_heading(what: str, values: Sequence[str | None]) -> str:
    """Return the heading of a column of matched effects, with the epochs or losses of its rows."""
    return f"at {what} {', '.join(dict.fromkeys(filter(None, values)))}"


def _row(of: Effects, effect: Effect, names: Sequence[str], num: int) -> tuple[Cell, ...]:
    contrast = of.over_images.get(effect.factors)
    cells: dict[str, Cell] = {
        "effect": of.at_end.name(effect),
        "end": simultaneous_estimate(effect, num),
        "end_seeds_and_images": contrast.over_both if contrast else None,
        "matched_steps": _matched(of.at_steps, effect, num),
        "matched_loss": _matched(of.at_loss, effect, num),
        "virtual_stop": _matched(of.at_stop, effect, num),
        "holm_p": effect.holm_p,
    }
    return tuple(cells[name] for name in names)


def _matched(matched: tuple[float, Factorial] | None, effect: Effect, num: int) -> Cell:
    """Return an effect at equal progress with its simultaneous interval; None if there is none."""
    if matched is None:
        return None
    return simultaneous_estimate(matched[1].effect(*effect.factors), num)


def cost_table(families: Sequence[Family]) -> Table:
    """Tabulate how long every condition trained, and how much time it took."""
    results: list[tuple[str, str, Callable[[Evidence], float], int]] = [
        ("epochs trained", "epochs", lambda run: run.trained.outcome.num_epochs, 1),
        ("best epoch", "best_epoch", lambda run: run.trained.outcome.best_epoch, 1),
        ("last training loss", "train_loss", lambda run: run.log[-1].train_loss, 3),
        ("images seen (millions)", "images_millions", _millions, 2),
        ("minutes", "minutes", lambda run: run.trained.outcome.seconds / 60, 1),
    ]
    rows: list[tuple[Cell, ...]] = []
    for family in families:
        for condition in family.conditions:
            name = condition.label if len(families) == 1 else f"{condition.label}, {family.name}"
            cells = [over_runs(condition, number) for _, _, number, _ in results]
            rows.append((name, condition.num_seeds, *cells))
    runs = [run for family in families for c in family.conditions for run in c.runs]
    hours = sum(run.trained.outcome.seconds for run in runs) / 3600
    return Table(
        key="cost",
        title="How long each condition trained, and what it cost",
        columns=(
            Column("condition", "condition"),
            Column("seeds", "seeds", "count"),
            *(Column(text, name, "number", digits) for text, name, _, digits in results),
        ),
        rows=rows,
        note=f"Means and 95 % t-intervals over seeds. The {len(runs)} runs took {hours:.1f} hours "
        "of training together. The minutes depend on the machine and on what else it did.",
    )


def _millions(run: Evidence) -> float:
    return run.trained.outcome.images_seen / 1e6


def over_runs(condition: ConditionRuns, number: Callable[[Evidence], float]) -> Cell:
    """Estimate a number over seeds; return the number alone if all seeds agree or there is one."""
    values = [float(number(run)) for run in condition.runs]
    return values[0] if len(set(values)) == 1 else over_seeds(values)
