"""Print recipes, plans, the state of a study and its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearsight.core import clock, console
from nearsight.report.write import Column, Format, Table
from nearsight.study.claims import Verdict
from nearsight.study.design import Cell, Condition, Recipe, Scale
from nearsight.study.folder import (
    cell_folder,
    epochs_done,
    failure,
    read_cells,
    read_study,
    state_of,
)
from nearsight.study.run import Plan, StudyCost

FILES: tuple[Format, ...] = ("html", "csv", "json", "latex")
SHORT = {"not decided at this scale": "undecided"}
SIGNS = {"finished": "done", "running": "runs", "failed": "FAILED", "stopped": "stopped"}


def print_recipes(found: Sequence[Recipe]) -> None:
    """Print every recipe with its question, its size and the other lines of its docstring."""
    screen = console()
    for recipe in found:
        screen.say(recipe.name, style="bold")
        screen.say(f"  {recipe.question}")
        scales: tuple[Scale | None, ...] = recipe.scales or (None,)
        for scale in () if recipe.needs else scales:
            study = recipe.study(scale)
            num = len(study.conditions)
            cells = f"{num} conditions x {study.num_seeds} seeds = {num * study.num_seeds} cells"
            screen.say(f"  {scale}: {cells}" if scale else f"  {cells}")
        for key, text in recipe.told.items():
            screen.say(f"  {key}: {text}", style="dim")


def print_plan(plan: Plan, seconds: float, workers: int) -> None:
    """Print the cells of a plan, the time they take, and what this estimate assumes."""
    from nearsight.study.run import assumptions, num_cores

    screen = console()
    screen.print(_grid(plan.cells, dict(zip((x.key for x in plan.cells), plan.states))).rich())
    num = len(plan.todo)
    at_once = max(1, min(workers, num))
    said = assumptions(at_once, plan.cells[0].processes, num_cores())
    screen.say(
        f"{plan.name}: {num} of {len(plan.cells)} cells to run, at most {clock(seconds)} of "
        f"training here with {at_once} at a time ({said})."
    )


def print_costs(
    name: str, costs: Sequence[StudyCost], speed: float | None, workers: int, gpu_tflops: float
) -> None:
    """Print the cost of a study at each scale, on this machine and on a GPU of a given speed.

    Args:
        name: The name of the study.
        costs: Its cost at each scale.
        speed: Floating-point operations per second of one core of this machine; None if it was not
            measured.
        workers: The number of cells that run at a time on this machine.
        gpu_tflops: The speed of the GPU in training.
    """
    from nearsight.study.run import num_cores

    screen, at_once = console(), min(workers, num_cores())
    for cost in costs:
        of_scale = f" at the {cost.scale} scale" if cost.scale else ""
        here = "" if speed is None else f"{_days(cost.hours(speed * at_once))} here, "
        screen.say(
            f"{name}{of_scale}: {cost.num_cells} cells, {cost.operations:.2g} operations, {here}"
            f"{_days(cost.hours(gpu_tflops * 1e12))} on one GPU at {gpu_tflops:g} TFLOP/s."
        )
    if speed is not None:
        screen.say(
            f"'Here' means {at_once} cells at a time, at the {speed / 1e9:.0f} GFLOP/s per core "
            "that a small ViT attains. Both times follow from the number of operations in training "
            "and validation; narrower models take longer, above all on a GPU.",
            style="dim",
        )


def costs_json(
    costs: Sequence[StudyCost], speed: float | None, gpu_tflops: float
) -> list[dict[str, Any]]:
    """Return the cost of a study at each scale as plain values."""
    return [
        {
            "scale": cost.scale, "cells": cost.num_cells, "operations": cost.operations,
            "core_hours_here": None if speed is None else cost.hours(speed),
            "gpu_hours": cost.hours(gpu_tflops * 1e12), "gpu_tflops": gpu_tflops,
        }
        for cost in costs
    ]  # fmt: skip


def _days(hours: float) -> str:
    """Return a time as text in minutes, hours or days, with two digits.

    >>> _days(0.001), _days(0.6), _days(3.14), _days(130.0), _days(50_000.0)
    ('under a minute', '36 minutes', '3.1 hours', '5.4 days', '2,083 days')
    """
    for unit, length in (("days", 24.0), ("hours", 1.0)):
        if hours >= 2 * length:
            number = hours / length
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{60 * hours:.0f} minutes" if hours >= 1 / 60 else "under a minute"


def print_status(out: Path) -> None:
    """Print the state of every cell, and why cells failed."""
    screen, cells = console(), read_cells(out)
    states = {cell.key: state_of(cell_folder(out, cell)) for cell in cells}
    texts: dict[str, str] = {**states}
    for cell in cells:
        if states[cell.key] in ("running", "stopped"):
            done = epochs_done(cell_folder(out, cell))
            texts[cell.key] += f" {done}/{cell.protocol.epochs}"
    screen.print(_grid(cells, texts).rich())
    counts = Counter(states.values())
    told = ", ".join(f"{number} {state}" for state, number in counts.items())
    screen.say(f"{read_study(out).study}: {len(cells)} cells, {told}.")
    for cell in cells:
        if states[cell.key] == "failed":
            reason = failure(cell_folder(out, cell))
            screen.say(f"{cell.label} ({cell.key}): {reason}")


def status_json(out: Path) -> list[dict[str, Any]]:
    """Return the state of every cell of a study as plain values."""
    return [
        {
            "key": cell.key,
            "label": cell.label,
            "seed": cell.seed,
            "state": state_of(folder := cell_folder(out, cell)),
            "epochs_done": epochs_done(folder),
            "epochs": cell.protocol.epochs,
            "failure": failure(folder),
        }
        for cell in read_cells(out)
    ]


def print_verdicts(
    found: Sequence[Verdict], everything: bool = False, details: bool = False
) -> None:
    """Print the verdicts on claims as a table.

    Args:
        found: The verdicts.
        everything: Whether to include claims that the study has no data for.
        details: Whether to print the sentence, source, numbers and assumptions of each claim too.
    """
    screen = console()
    shown = [x for x in found if everything or x.findings]
    screen.print(verdicts_table(shown).rich())
    named: dict[tuple[str, str], list[str]] = {}
    for verdict, letter in zip(shown, _letters(shown), strict=True):
        named.setdefault((letter, verdict.settings), []).append(verdict.claim.id)
    for (letter, settings), claims in named.items():
        if letter:
            screen.say(f"{letter} of {', '.join(claims)}: {settings}.")
    if details:
        for verdict in shown:
            screen.say(f"{verdict.claim.id}, {verdict.decision}: {verdict.claim.sentence}")
            screen.say(f"  {verdict.claim.source}. {verdict.reason}")
    scales = list(dict.fromkeys(x.scale for x in shown if x.n))
    for scale in scales:
        screen.say(f"Scale: {scale}.")
    assumed = list(dict.fromkeys(x for verdict in shown for x in verdict.assumed))
    if assumed:
        screen.say(
            f"The papers do not give these settings, which we assumed: {', '.join(assumed)}."
        )
    rest = "" if details else " Use --details to see the reasons."
    screen.say(f"{len(shown)} of {len(found)} verdicts are shown.{rest}")


def verdicts_table(found: Sequence[Verdict]) -> Table:
    """Tabulate verdicts: what is compared, what is claimed, and what was seen.

    In the terminal, what is compared and claimed is only in the details, and several verdicts on
    one claim are told apart by letters. In files, their settings tell them apart.
    """
    letters = _letters(found)
    columns = (
        Column("claim", "id", wrap=False),
        Column("", "letter", only=("terminal",) if any(letters) else ()),
        Column("condition", "condition", only=FILES),
        Column("settings", "settings", only=FILES),
        Column("claimed", "claimed", only=FILES),
        Column("seen", "seen", wrap=False),
        Column("verdict", "decision"),
        Column("n", "n", "count"),
    )
    rows = [
        (x.claim.id, letter, x.condition, x.settings, x.claimed, x.seen,
         SHORT.get(x.decision, x.decision), x.n)
        for x, letter in zip(found, letters, strict=True)
    ]  # fmt: skip
    return Table("verdicts", columns, rows, "The papers' claims")


def _letters(found: Sequence[Verdict]) -> list[str]:
    """Return a letter for every verdict on a claim that has several verdicts, else "".

    >>> from types import SimpleNamespace as Record
    >>> two, one = (Record(claim=Record(id=name), settings=name) for name in ("two", "one"))
    >>> _letters([one, two, two])
    ['', 'a', 'b']
    """
    counts = Counter(x.claim.id for x in found if x.settings)
    numbers: Counter[str] = Counter()
    letters = []
    for verdict in found:
        name = verdict.claim.id
        several = bool(verdict.settings) and counts[name] > 1
        letters.append(_letter(numbers[name]) if several else "")
        numbers[name] += 1
    return letters


def _letter(number: int) -> str:
    """Return a, b, ..., z, then z1, z2, ..."""
    return chr(ord("a") + number) if number < 26 else f"z{number - 25}"


def _grid(cells: Sequence[Cell], texts: dict[str, str]) -> Table:
    """Return a table with a row per condition and a column per seed."""
    seeds = sorted({cell.seed for cell in cells})
    found: dict[str, dict[int, str]] = {}
    for cell in cells:
        label = Condition(cell.factors, cell.protocol).label
        found.setdefault(label, {})[cell.seed] = _sign(texts[cell.key])
    columns = [Column("condition", "condition")]
    columns += [Column(f"seed {seed}", f"seed_{seed}", wrap=False) for seed in seeds]
    rows = [(label, *(x.get(seed) for seed in seeds)) for label, x in found.items()]
    return Table("cells", tuple(columns), rows)


def _sign(text: str) -> str:
    state, _, rest = text.partition(" ")
    return f"{SIGNS.get(state, state)} {rest}".strip()
