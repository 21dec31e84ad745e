"""Tabulate accuracy and gain by fraction of the data, like table 2 of the ConViT paper."""

from __future__ import annotations

from nearsight.report.read import SCORES, Family, Series, sample_series
from nearsight.report.write.cells import Cell
from nearsight.report.write.table import Column, Table


def efficiency_tables(family: Family) -> list[Table]:
    """Return a table for each score, with every series by fraction and its gain over plain models.

    The list is empty if no model was trained on several fractions.
    """
    series = sample_series(family)
    conditions = [condition for each in series for condition in each.points.values()]
    return [
        _table(series, score)
        for score in SCORES
        if series and all(x.has(score) for x in conditions)
    ]


def _table(series: list[Series], score: str) -> Table:
    columns = [Column(SCORES[score], "data")]
    for each in series:
        columns.append(Column(each.label, each.label, "share"))
        if each.gains(score):
            gain = Column("gain", f"{each.label}_gain", "number", 1, unit=" %", plus=True)
            columns.append(gain)
    rows: list[tuple[Cell, ...]] = []
    for fraction in sorted({x for each in series for x in each.points}):
        cells: list[Cell] = [f"{100 * fraction:g} % of the data"]
        for each in series:
            condition, gains = each.points.get(fraction), each.gains(score)
            cells.append(condition.estimate(score) if condition else None)
            cells += [gains.get(fraction)] if gains else []
        rows.append(tuple(cells))
    return Table(f"efficiency-{score}", tuple(columns), rows, layout="summary")
