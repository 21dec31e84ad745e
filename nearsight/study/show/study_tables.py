"""Recipes, plans and the state of a study in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nearsight.core import clock
from nearsight.study.claims import Verdict
from nearsight.study.design import Cell, Condition, Recipe
from nearsight.study.folder import (
    cell_folder,
    epochs_done,
    failure,
    read_cells,
    read_study,
    state_of,
)
from nearsight.study.run import Plan

MAX_WIDTH = 80
SIGNS = {"finished": "done", "running": "runs", "failed": "FAILED", "stopped": "stopped"}


def console() -> Console:
    whole = Console(highlight=False)
    return Console(highlight=False, width=min(whole.width, MAX_WIDTH))


def print_recipes(found: Sequence[Recipe]) -> None:
    """Every recipe with what its file tells."""
    screen = console()
    for recipe in found:
        screen.print(recipe.name, style="bold", markup=False)
        screen.print(f"  {recipe.question}", markup=False)
        if recipe.needs is None:
            study = recipe.study()
            num = len(study.conditions)
            cells = f"{num} conditions x {study.num_seeds} seeds = {num * study.num_seeds} cells"
            screen.print(f"  {cells}", markup=False)
        for key, text in recipe.told.items():
            screen.print(f"  {key}: {text}", markup=False, style="dim")


def print_plan(plan: Plan, seconds: float, workers: int) -> None:
    """Conditions with their seeds, the time, and what it assumes."""
    from nearsight.study.run import assumptions, num_cores

    screen = console()
    screen.print(_grid(plan.cells, dict(zip((x.key for x in plan.cells), plan.states))))
    num = len(plan.todo)
    at_once = max(1, min(workers, num))
    said = assumptions(at_once, plan.cells[0].processes, num_cores())
    screen.print(
        f"{plan.name}: {num} of {len(plan.cells)} cells to run, at most {clock(seconds)} of "
        f"training here with {at_once} at a time ({said}).",
        markup=False,
    )


def print_status(out: Path) -> None:
    """Conditions by seeds, counts, reasons of failures."""
    screen, cells = console(), read_cells(out)
    states = {cell.key: state_of(cell_folder(out, cell)) for cell in cells}
    texts: dict[str, str] = {**states}
    for cell in cells:
        if states[cell.key] in ("running", "stopped"):
            done = epochs_done(cell_folder(out, cell))
            texts[cell.key] += f" {done}/{cell.protocol.epochs}"
    screen.print(_grid(cells, texts))
    counts = Counter(states.values())
    told = ", ".join(f"{number} {state}" for state, number in counts.items())
    screen.print(f"{read_study(out)['study']}: {len(cells)} cells, {told}.", markup=False)
    for cell in cells:
        if states[cell.key] == "failed":
            reason = failure(cell_folder(out, cell))
            screen.print(f"{cell.label} ({cell.key}): {reason}", markup=False)


def print_verdicts(found: Sequence[Verdict], everything: bool = False) -> None:
    """Claims with verdict, reason and numbers; those without data only if asked for."""
    screen = console()
    shown = [x for x in found if everything or x.findings]
    for verdict in shown:
        screen.print(f"{verdict.decision}: {verdict.claim.sentence}", style="bold", markup=False)
        screen.print(f"  {verdict.claim.source}. {verdict.reason}", markup=False)
    screen.print(f"{len(shown)} of {len(found)} verdicts shown.", markup=False)


def _grid(cells: Sequence[Cell], texts: dict) -> Table:
    """A row per condition, a column per seed."""
    seeds = sorted({cell.seed for cell in cells})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("condition")
    for seed in seeds:
        table.add_column(f"seed {seed}", no_wrap=True)
    rows: dict[str, dict[int, str]] = {}
    for cell in cells:
        label = Condition(cell.factors, cell.protocol).label
        rows.setdefault(label, {})[cell.seed] = texts[cell.key]
    for label, found in rows.items():
        table.add_row(label, *(_sign(found.get(seed, "–")) for seed in seeds))
    return table


def _sign(text: str) -> str:
    state, _, rest = text.partition(" ")
    return f"{SIGNS.get(state, state)} {rest}".strip()
