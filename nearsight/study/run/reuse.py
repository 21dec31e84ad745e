"""Find cells of another study that can be reused, and say how they differ.

A cell with the key of a planned cell is reused as it is. A cell that differs in its software only
is reused if the user accepts the differences. It keeps its key, and its cell.json lists the
differences that were accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nearsight.core import UserError
from nearsight.runs import cpu_name, read_record
from nearsight.study.design import Cell
from nearsight.study.folder import cell_folder, is_finished, read_cells

Accept = Callable[[Sequence[str]], bool]  # takes the differences in words


def take_over(
    cells: Sequence[Cell],
    out: Path,
    other: Path,
    accept: Accept | None,
    only_identical: bool = False,
) -> tuple[list[Cell], list[str]]:
    """Replace planned cells by finished cells of another study; return cells and notes.

    Args:
        cells: The planned cells.
        out: The study folder; a cell that it already has keeps its key.
        other: The study folder to take cells from. Nothing is copied here.
        accept: Called once if the software differs, and returns whether to reuse such cells. None
            never reuses them.
        only_identical: Do not reuse cells of other software and do not ask, so that they are run
            here.

    Raises:
        UserError: If there are differences and they are not accepted.
    """
    stored = [cell for cell in read_cells(other) if is_finished(cell_folder(other, cell))]
    keys = {cell.key for cell in stored}
    found: list[Cell] = []
    taken: list[Cell] = []
    differences: Counter[str] = Counter()
    others = 0
    for cell in cells:
        like = next((x for x in stored if cell.is_like_but_for_software(x)), None)
        told = like.software.differences_from(cell.software) if like else []
        if cell.key in keys or cell_folder(out, cell).exists() or like is None:
            found.append(cell)
        elif told and only_identical:
            found.append(cell)
            others += 1
        else:
            differences.update(told)
            found.append(replace(like, factors=cell.factors, accepted=tuple(told)))
        if found[-1].key in keys:
            taken.append(found[-1])
    lines = [f"{words} ({number} cells)" for words, number in differences.items()]
    if lines and (accept is None or not accept(lines)):
        raise UserError(
            f"cells of {other} were made with other software: {'; '.join(lines)}. Nothing was "
            "copied; give --accept-differences to reuse them, --only-identical to run them here, "
            "or leave out --reuse"
        )
    if others:
        lines.append(f"{others} cells of {other} were made with other software and are run here")
    return found, [*lines, *_cpu_notes(taken, other)]


def _cpu_notes(taken: Sequence[Cell], other: Path) -> list[str]:
    """Return notes on reused cells from another CPU, which may differ in the last digits."""
    here = cpu_name()
    records = [read_record(cell_folder(other, cell)) for cell in taken]
    kinds = Counter(str(x.provenance.hardware.get("cpu", "not recorded")) for x in records)
    return [
        f"{number} reused cells were made on the CPU {kind}; the CPU here is {here}"
        for kind, number in kinds.items()
        if kind != here
    ]
