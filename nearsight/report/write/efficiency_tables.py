"""Table 2 of the ConViT paper: accuracy and gain of every series by fraction of the data."""

from __future__ import annotations

from html import escape

from nearsight.report.read import SCORES, Family, Series, sample_series
from nearsight.report.write.tables import interval_text, number_text
from nearsight.stats import Estimate


def efficiency_tables(family: Family) -> str:
    """Table 2 of the ConViT paper: scores of every series by fraction, and the gains, as HTML."""
    series = sample_series(family)
    conditions = [condition for each in series for condition in each.points.values()]
    return "".join(
        _table(series, score)
        for score in SCORES
        if series and all(x.has(score) for x in conditions)
    )


def _table(series: list[Series], score: str) -> str:
    head = "".join(
        f"<th>{escape(each.label)}</th>" + "<th>gain</th>" * bool(each.gains(score))
        for each in series
    )
    body = "".join(
        f'<tr><th scope="row">{100 * fraction:g} % of the data</th>'
        + "".join(_cells(each, fraction, score) for each in series)
        + "</tr>"
        for fraction in sorted({x for each in series for x in each.points})
    )
    return (
        f'<table class="summary"><thead><tr><th>{SCORES[score]}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _cells(each: Series, fraction: float, score: str) -> str:
    """A series at a fraction: its score and, where the series has gains, the gain."""
    condition, gains = each.points.get(fraction), each.gains(score)
    cells = _cell(each.label, condition.estimate(score) if condition else None, share=True)
    return cells + (_cell("gain", gains.get(fraction), share=False) if gains else "")


def _cell(label: str, x: Estimate | None, share: bool) -> str:
    start = f'<td data-label="{escape(label)}">'
    if x is None:
        return f"{start}–</td>"
    value = number_text(x.value, percent=True) if share else f"{x.value:+.1f} %"
    interval = interval_text(x, percent=True) if share else f"{x.low:+.1f} to {x.high:+.1f} %"
    return (
        f'{start}<span>{value}</span><span class="interval">{interval}</span>'
        f'<span class="interval">n = {x.n:,} {x.over}</span></td>'
    )
