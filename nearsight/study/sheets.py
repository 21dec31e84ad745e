"""The tables of a study's page: effects of its factors, length and cost of its conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nearsight.report.conditions import Condition, Family
from nearsight.report.estimate import Estimate, over_seeds
from nearsight.report.evidence import Evidence
from nearsight.report.figures.effects import NAMES
from nearsight.report.sheet import Cell, Heading, Sheet
from nearsight.study.bootstrap import ExtremeContrast
from nearsight.study.factorial import Factorial

EXTREMES = "min_mad"  # the number whose effects are also given over seeds and images
DIGITS = {"self_mass": 4}  # of small numbers
MATCHED = (
    "At matched steps: the last epoch that all runs reached. At matched training loss: the lowest "
    "that all runs reached; with mixing or smoothing it is a loss of other targets."
)


def effect_sheets(
    at_end: Sequence[Factorial],
    at_steps: Sequence[tuple[int, Factorial]],
    at_loss: Sequence[tuple[float, Factorial]],
    extremes: Mapping[tuple[str, ...], ExtremeContrast],
) -> tuple[Sheet, ...]:
    """A table per number: every effect at the end, at matched steps and at matched loss."""
    steps = {of.value: (epoch, of) for epoch, of in at_steps}
    losses = {of.value: (loss, of) for loss, of in at_loss}
    return tuple(
        _effects(of, steps.get(of.value), losses.get(of.value), extremes)
        for of in at_end
        if of.seeds
    )


def effects_note(of: Factorial) -> str:
    """What holds for the tables of all numbers."""
    high, *rest = of.notes
    return " ".join([f"Paired by seed, {high.partition(', paired by seed, ')[2]}", *rest, MATCHED])


def _effects(
    of: Factorial,
    steps: tuple[int, Factorial] | None,
    loss: tuple[float, Factorial] | None,
    extremes: Mapping[tuple[str, ...], ExtremeContrast],
) -> Sheet:
    percent, digits = of.value == "accuracy", DIGITS.get(of.value, 3)
    columns: list[tuple[Heading, Callable[[tuple[str, ...]], Cell]]] = [
        (Heading("effect", "effect"), lambda names: of.effect(*names).label),
        (Heading("at the end", "end", percent, digits), lambda names: of.effect(*names).estimate),
    ]
    notes = []
    if of.value == EXTREMES and extremes:
        heading = Heading("at the end, seeds and images", "end_seeds_and_images")
        columns.append((heading, lambda names: _over_both(extremes.get(names))))
        notes.append(
            "Seeds and images: bootstrap over both, with the most local head chosen anew each time."
        )
    if steps is not None:
        epoch, then = steps
        heading = Heading(f"at epoch {epoch}", "matched_steps", percent, digits)
        columns.append((heading, lambda names: then.effect(*names).estimate))
    if loss is not None:
        value, there = loss
        heading = Heading(f"at training loss {value:.2f}", "matched_loss", percent, digits)
        columns.append((heading, lambda names: _found(there, names)))
    if percent:
        notes.append("In percentage points; matched ones over validation images.")
    if any(effect.holm_p is not None for effect in of.effects):
        columns.append((Heading("Holm's p", "holm_p"), lambda names: of.effect(*names).holm_p))
    rows = tuple(tuple(cell(effect.factors) for _, cell in columns) for effect in of.effects)
    return Sheet(
        key=f"effects-{of.value}".replace("_", "-"),
        title=f"Effects on {NAMES.get(of.value, of.value)}",
        headings=tuple(heading for heading, _ in columns),
        rows=rows,
        note=" ".join(notes),
    )


def _over_both(x: ExtremeContrast | None) -> Estimate | None:
    return x.over_both if x else None


def _found(of: Factorial, names: tuple[str, ...]) -> Estimate | None:
    return of.effect(*names).estimate if of.seeds else None


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
