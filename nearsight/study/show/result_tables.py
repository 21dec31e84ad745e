"""Tabulate the main results of a study: its primary contrast, and the seeds with a local head."""

from __future__ import annotations

from collections.abc import Sequence

from nearsight.core import console
from nearsight.measure.catalogue import LOG_MIN_MAD, MAX_SCORE, NEAR_KINDS, number_named
from nearsight.report.write import Cell, Column, Format, Kind, Table
from nearsight.stats import FEWEST_FOR_P, MOST_FOR_P
from nearsight.study.analyse import (
    Effects,
    Factors,
    LoadedStudy,
    PrimaryResult,
    SeedShare,
    condition_text,
    num_simultaneous,
    outcomes,
    primary_result,
    seed_shares,
    simultaneous_estimate,
)
from nearsight.study.show.origin_table import origin_sentence

FILES: tuple[Format, ...] = ("html", "csv", "json", "latex")
NO_PRIMARY = "No primary contrast was named before this study ran, so no comparison is singled out."
SHARES_NOTE = (
    "The number of seeds with at least one head whose MAD is below that of a 3x3 box, in the "
    "layers that an output reads. An identity head has a self-mass of at least 0.5, a local head "
    "less. The 95 % intervals are exact (Clopper and Pearson), because nearly all or nearly none "
    "of the seeds have such a head."
)


def primary_table(found: PrimaryResult) -> Table:
    """Tabulate the comparison that was named before the study ran."""
    number = number_named(found.contrast.value)
    kind: Kind = "share" if number.percent else "number"
    columns = [
        Column("contrast", "contrast"),
        Column("at the end", "end", kind, number.digits),
    ]
    cells: list[Cell] = [str(found.contrast), found.estimate]
    if found.at_steps:
        epoch, estimate = found.at_steps
        columns.append(Column(f"at epoch {epoch}", "matched_steps", kind, number.digits))
        cells.append(estimate)
    columns += [Column("exact p", "p", "number", 4), Column("seeds", "seeds", "count")]
    cells += [found.p, len(found.per_seed)]
    return Table(
        "primary", tuple(columns), [tuple(cells)], "The primary contrast", _primary_note(found)
    )


def _primary_note(found: PrimaryResult) -> str:
    said = (
        "It was named before the study ran, so its 95 % interval over seeds needs no correction "
        "for other comparisons. "
    )
    num = found.num_pairs
    if found.p is not None:
        return f"{said}The p value is that of the exact sign-flip test on {num} pairs of runs."
    if num < FEWEST_FOR_P:
        return (
            f"{said}There is no p value: the sign-flip test needs at least {FEWEST_FOR_P} pairs of "
            f"runs, but there are {num}."
        )
    return (
        f"{said}There is no p value: the exact sign-flip test takes at most {MOST_FOR_P} pairs of "
        f"runs, but there are {num}."
    )


def share_table(found: Sequence[SeedShare]) -> Table:
    """Tabulate in how many seeds of every condition there is an identity or a local head."""
    by_condition: dict[Factors, dict[str, SeedShare]] = {}
    for x in found:
        by_condition.setdefault(x.condition, {})[x.kind] = x
    columns = [Column("condition", "condition")]
    for kind in NEAR_KINDS:
        columns.append(Column(f"seeds with {kind} head", f"{kind}_seeds", only=FILES))
        columns.append(Column(f"share, {kind}", f"{kind}_share", "share", only=FILES))
        columns.append(Column(f"{kind} head", f"{kind}_told", wrap=False, only=("terminal",)))
    rows: list[tuple[Cell, ...]] = [
        (
            condition_text(condition),
            *(
                cell
                for kind in NEAR_KINDS
                for cell in (_count(kinds[kind]), kinds[kind].share, _in_short(kinds[kind]))
            ),
        )
        for condition, kinds in by_condition.items()
    ]
    return Table(
        "seed-shares", tuple(columns), rows, "Seeds with an identity or a local head", SHARES_NOTE
    )


def _count(x: SeedShare) -> str:
    return f"{x.count} of {x.share.n}"


def _in_short(x: SeedShare) -> str:
    """Return the number of seeds and the interval of the share as one text."""
    return f"{_count(x)} ({100 * x.share.low:.0f} to {100 * x.share.high:.0f} %)"


def log_table(effects: Sequence[Effects]) -> Table | None:
    """Tabulate the main effects on MAD and on its logarithm, at the end; None without effects."""
    num = num_simultaneous(effects)
    by_name: dict[str, dict[str, Cell]] = {}
    for x in effects:
        if x.value in ("min_mad", LOG_MIN_MAD.name, MAX_SCORE.name):
            for effect in x.at_end.effects:
                if len(effect.factors) == 1 and effect.estimate is not None:
                    name = x.at_end.name(effect)
                    by_name.setdefault(name, {})[x.value] = simultaneous_estimate(effect, num)
    if not by_name:
        return None
    columns: tuple[Column, ...] = (
        Column("effect", "effect"),
        Column("on min MAD", "min_mad", "number"),
        Column("on log min MAD", "log_min_mad", "number"),
    )
    if any(x.value == MAX_SCORE.name for x in effects):
        columns = (*columns, Column("on its score", MAX_SCORE.name, "number"))
    rows = [(name, *(x.get(column.name) for column in columns[1:])) for name, x in by_name.items()]
    note = (
        f"At the end of training, with simultaneous 95 % intervals over seeds ({num} intervals). "
        f"{LOG_NOTE}"
    )
    return Table("effects-in-short", columns, rows, "Main effects on the most local head", note)


LOG_NOTE = "An effect on the logarithm multiplies MAD: −0.69 halves it."


def print_results(study: LoadedStudy, effects: Sequence[Effects]) -> None:
    """Print the primary contrast, the effects on min MAD and the seeds with a local head."""
    screen, primary = console(), primary_result(study)
    shares = seed_shares(outcomes(study))
    tables = [
        None if primary is None else primary_table(primary),
        log_table(effects),
        share_table(shares) if shares else None,
    ]
    if said := origin_sentence(study):
        screen.say(said)
    if primary is None:
        screen.say(NO_PRIMARY)
    for table in tables:
        if table is not None:
            screen.print(table.rich())
            screen.say(table.note)
