"""List the papers' tables and figures in the terminal, as JSON, and in the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearsight.core import console
from nearsight.report.write import Column, Table
from nearsight.study.papers import PAPERS, ItemState, PaperItem, recipe_costs

Listed = Sequence[tuple[PaperItem, Sequence[ItemState]]]
CORE_GFLOPS, GPU_TFLOPS = 30.0, 100.0  # speeds of training; on a GPU, small models are slower
NOT_RUN = "not run"


def cost_text(item: PaperItem) -> str:
    """Return the cost of a table or figure: core-hours (laptop scale) / GPU-hours (paper scale)."""
    if item.recipe is None:
        return "none"
    costs = recipe_costs().get(item.recipe, {})
    if not costs:
        return "not known yet"
    laptop, paper = (costs[scale]["operations"] / 3600 for scale in ("laptop", "paper"))
    return f"{_hours(laptop / CORE_GFLOPS / 1e9)} / {_hours(paper / GPU_TFLOPS / 1e12)}"


def _hours(hours: float) -> str:
    """Return a number of hours as text, with two digits.

    >>> _hours(0.314), _hours(2.0), _hours(118.3), _hours(5183)
    ('0.3', '2', '120', '5,200')
    """
    if hours < 10:
        return f"{hours:.1f}".removesuffix(".0") if hours >= 0.05 else "under 0.1"
    rounded = float(f"{hours:.2g}")
    return f"{rounded:,.0f}"


def state_text(item: PaperItem, states: Sequence[ItemState]) -> str:
    """Describe which studies of a table or figure were run, or why there is none."""
    if item.recipe is None:
        return item.reason
    return "; ".join(map(str, states)) or NOT_RUN


COST_NOTE = (
    f"Cost: core-hours of the laptop scale at {CORE_GFLOPS:g} GFLOP/s / GPU-hours of the paper's "
    f"scale at {GPU_TFLOPS:g} TFLOP/s, both as training attains them, with the recipe's seeds; "
    "`nearsight study plan NAME` measures this machine and takes another GPU with --gpu-tflops."
)


def paper_tables_listed(listed: Listed) -> list[Table]:
    """Return a table for each paper, with a row for every table and figure."""
    columns = (
        Column("item", "item", wrap=False),
        Column("recipe", "recipe", wrap=False),
        Column("cost", "cost", wrap=False),
        Column("state", "state"),
    )
    rows: dict[str, list[tuple[str, ...]]] = {}
    for item, states in listed:
        told = (item.label, item.recipe or "none", cost_text(item), state_text(item, states))
        rows.setdefault(item.paper, []).append(told)
    return [
        Table(f"papers-{paper}", columns, rows[paper], text)
        for paper, text in PAPERS.items()
        if paper in rows
    ]


def print_papers(listed: Listed) -> None:
    """Print every table and figure with its recipe, cost and state."""
    screen = console()
    for table in paper_tables_listed(listed):
        screen.print(table.rich())
        screen.say("")
    screen.say(f"{COST_NOTE} docs/papers.md and --json say what each shows.")


def papers_json(listed: Listed) -> list[dict[str, Any]]:
    """Return the list as plain values."""
    return [
        {
            "paper": item.paper, "item": item.label, "title": item.title, "recipe": item.recipe,
            "command": _command(item), "cost": recipe_costs().get(item.recipe or "", {}),
            "reason": item.reason or None, "runs": [x.contents() for x in states],
        }
        for item, states in listed
    ]  # fmt: skip


def _command(item: PaperItem) -> str:
    run = f"nearsight study run {item.recipe} --scale laptop --out studies-out/{item.recipe}"
    return "; ".join(filter(None, [run if item.recipe else "", item.command]))


def papers_page(listed: Listed) -> str:
    """Return the list as a page of the docs, in Markdown."""
    lines = [
        "# papers: every table and figure, and the study that makes it",
        "",
        "Made by `python docs/make_papers.py` from `nearsight/study/papers/` and `results/`; "
        "`nearsight papers` prints the same list with your own studies.",
        "",
        "```",
        "nearsight papers                                   # this list; --json, --studies DIR",
        "nearsight study plan convit-grid                   # cells and time of both scales",
        "nearsight study run convit-grid --scale laptop --out studies-out/convit-grid",
        "nearsight study report studies-out/convit-grid     # the paper's table, ours beside it",
        "```",
        "",
        COST_NOTE,
    ]
    last = None
    for item, states in listed:
        if item.paper != last:
            lines += ["", f"## {PAPERS[item.paper]}", "", "| item | what it shows | recipe | cost "
                      "| where our numbers are | state |", "|---|---|---|---|---|---|"]  # fmt: skip
            last = item.paper
        recipe = f"`{item.recipe}`" if item.recipe else "none"
        shown = item.shown or ("table beside the paper's" if item.rows else "")
        command = f"`{item.command}`" if item.command.startswith("nearsight maps") else item.command
        where = "; ".join(filter(None, [shown, command]))
        told = (item.label, item.title, recipe, cost_text(item), where, state_text(item, states))
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join([*lines, ""])
