"""The tables of a study's page: effects of its factors, length and cost of its conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearsight.measure.catalogue import heading_of, number_named
from nearsight.report.read import Condition, Evidence, Family
from nearsight.report.write import Cell, Heading, Sheet
from nearsight.stats import over_seeds
from nearsight.study.analyse import Effect, Effects

NOTES = {
    "accuracy": "In percentage points; matched ones over validation images.",
    "min_mad": "Seeds and images: bootstrap over both, the most local head chosen anew each time.",
}
MATCHED = (
    "At matched steps: the last epoch that all runs reached. At matched training loss: the lowest "
    "that all runs reached; with mixing or smoothing it is a loss of other targets."
)


def effect_sheets(found: Sequence[Effects]) -> tuple[Sheet, ...]:
    """A table per number: every effect at the end, at matched steps and at matched loss."""
    by_value: dict[str, list[Effects]] = {}
    for effects in found:
        if effects.at_end.seeds:
            by_value.setdefault(effects.value, []).append(effects)
    return tuple(_effects(value, of_value) for value, of_value in by_value.items())


def effects_note(found: Sequence[Effects]) -> str:
    """What holds for the tables of all numbers."""
    pairing = found[0].at_end.pairing
    return " ".join([f"{pairing[0].upper()}{pairing[1:]}.", *multiplicity(found), MATCHED])


def multiplicity(found: Sequence[Effects]) -> list[str]:
    """How many contrasts there are on a number, and what is adjusted for that; a sentence each."""
    each = found[0].at_end
    levels = {tuple(x.at_end.fixed.values()) for x in found}
    if len(levels) == 1:
        return each.notes[1:]
    said = f"{len(levels)} factorials, one at each level of {', '.join(each.fixed)}: nothing is "
    return [f"{said}adjusted for their number.", *each.notes[1:]]


def _effects(value: str, found: Sequence[Effects]) -> Sheet:
    number = number_named(value)
    percent, digits = number.percent, number.digits
    headings = [Heading("effect", "effect"), Heading("at the end", "end", percent, digits)]
    if any(x.extremes for x in found):
        headings.append(Heading("at the end, seeds and images", "end_seeds_and_images"))
    if any(x.at_steps for x in found):
        told = _told("epoch", [x.at_steps and str(x.at_steps[0]) for x in found])
        headings.append(Heading(told, "matched_steps", percent, digits))
    if any(x.at_loss for x in found):
        told = _told("training loss", [x.at_loss and f"{x.at_loss[0]:.2f}" for x in found])
        headings.append(Heading(told, "matched_loss", percent, digits))
    if any(effect.holm_p is not None for x in found for effect in x.at_end.effects):
        headings.append(Heading("Holm's p", "holm_p"))
    names = [heading.name for heading in headings]
    rows = [_row(x, effect, names) for x in found for effect in x.at_end.effects]
    return Sheet(
        key=f"effects-{value}".replace("_", "-"),
        title=f"Effects on {heading_of(value)}",
        headings=tuple(headings),
        rows=tuple(rows),
        note=NOTES.get(value, ""),
    )


def _told(what: str, values: Sequence[str | None]) -> str:
    """Where effects are matched: one place, or several in the order of the rows."""
    return f"at {what} {', '.join(dict.fromkeys(filter(None, values)))}"


def _row(of: Effects, effect: Effect, names: Sequence[str]) -> tuple[Cell, ...]:
    contrast = of.extremes.get(effect.factors)
    cells: dict[str, Cell] = {
        "effect": of.at_end.name(effect),
        "end": effect.estimate,
        "end_seeds_and_images": contrast.over_both if contrast else None,
        "matched_steps": of.at_steps and of.at_steps[1].effect(*effect.factors).estimate,
        "matched_loss": of.at_loss and of.at_loss[1].effect(*effect.factors).estimate,
        "holm_p": effect.holm_p,
    }
    return tuple(cells[name] for name in names)


def cost_sheet(families: Sequence[Family]) -> Sheet:
    """How long every condition trained, and what it cost."""
    results: list[tuple[str, str, Callable[[Evidence], float], int]] = [
        ("epochs trained", "epochs", lambda run: run.record["result"]["num_epochs"], 1),
        ("best epoch", "best_epoch", lambda run: run.record["result"]["best_epoch"], 1),
        ("last training loss", "train_loss", lambda run: run.log[-1]["train_loss"], 3),
        ("images seen (millions)", "images_millions", _millions, 2),
        ("minutes", "minutes", lambda run: run.record["result"]["seconds"] / 60, 1),
    ]
    rows: list[tuple[Cell, ...]] = []
    for family in families:
        for condition in family.conditions:
            name = condition.label if len(families) == 1 else f"{condition.label}, {family.name}"
            cells = [over_runs(condition, number) for _, _, number, _ in results]
            rows.append((name, condition.num_seeds, *cells))
    runs = [run for family in families for c in family.conditions for run in c.runs]
    hours = sum(run.record["result"]["seconds"] for run in runs) / 3600
    return Sheet(
        key="cost",
        title="How long each condition trained, and what it cost",
        headings=(
            Heading("condition", "condition"),
            Heading("seeds", "seeds"),
            *(Heading(text, name, digits=digits) for text, name, _, digits in results),
        ),
        rows=tuple(rows),
        note=f"Mean and 95 % t-interval over seeds. {len(runs)} runs, {hours:.1f} hours of "
        "training together; minutes are of the machine that ran them, with whatever else it did.",
    )


def _millions(run: Evidence) -> float:
    return run.record["result"]["images_seen"] / 1e6


def over_runs(condition: Condition, number: Callable[[Evidence], float]) -> Cell:
    """Of a condition: over seeds; where all seeds agree, or there is one, the number alone."""
    values = [float(number(run)) for run in condition.runs]
    return values[0] if len(set(values)) == 1 else over_seeds(values)
