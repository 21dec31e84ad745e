"""What a study says of the papers' claims, as a section of its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from nearsight.report.write.sheet import Heading, Sheet
from nearsight.study.claims.verdict import Finding, Verdict

RULE = (
    "A verdict comes from 95 % intervals over seeds alone. It is 'supported' or 'contradicted' "
    "only at the claim's own scale; elsewhere the last column says what was seen. A claim of no "
    "effect is seen as claimed only if the interval lies inside the margin stated beforehand."
)
COLUMNS = ("id", "decision", "sentence", "source", "reason", "scale")


def claims_section(verdicts: Sequence[Verdict]) -> str:
    """The claims that the study has numbers for; empty if there is none."""
    shown = [x for x in verdicts if x.findings]
    if not shown:
        return ""
    without = len({x.claim.id for x in verdicts} - {x.claim.id for x in shown})
    usual, _ = Counter(map(_scale, shown)).most_common(1)[0]
    head = "".join(f"<th>{x}</th>" for x in ("claim", "number", "here", "claimed", "seen"))
    body = "".join(_rows(verdict, usual) for verdict in shown)
    rest = f"{without} further claims need data that this study does not have." if without else ""
    return (
        f'<section id="claims"><h2>The papers\' claims</h2><p>{RULE}</p>'
        f"<p>{escape(usual)}</p>"
        f'<div class="scroll"><table class="claims"><thead><tr>{head}</tr></thead>'
        f'<tbody>{body}</tbody></table></div><p class="note">{rest}</p>'
        f"{claims_sheet(shown).downloads()}</section>"
    )


def _scale(verdict: Verdict) -> str:
    if not verdict.elsewhere:
        return f"Scale: {verdict.where}, as claimed."
    return f"Scale: {verdict.where}. Not as claimed: {', '.join(verdict.elsewhere)}."


def _rows(verdict: Verdict, usual: str) -> str:
    """A row per number; the claim itself stands beside all of them, with an unusual scale."""
    scale = "" if _scale(verdict) == usual else f" {_scale(verdict)}"
    claim = (
        f'<th scope="rowgroup" rowspan="{len(verdict.findings)}">{escape(verdict.claim.sentence)}'
        f"<b>{escape(verdict.decision)}</b>"
        f"<small>{escape(verdict.claim.source)}.{escape(scale)}</small></th>"
    )
    rows = [f"{''.join(f'<td>{cell}</td>' for cell in _cells(x))}" for x in verdict.findings]
    return f'<tr class="first">{claim}{rows[0]}</tr>' + "".join(
        f"<tr>{row}</tr>" for row in rows[1:]
    )


def _cells(x: Finding) -> tuple[str, ...]:
    if x.estimate is None:
        here = f"{x.n} seed{'s' * (x.n != 1)}, no interval"
    else:
        bounds = f"{x.estimate.low:.3g} to {x.estimate.high:.3g}, n = {x.n}"
        here = f'{x.estimate.value:.3g} <span class="interval">{bounds}</span>'.replace("-", "−")
    return escape(x.label), here, escape(x.region), (x.seen or "–").replace(" ", "&nbsp;")


def claims_sheet(verdicts: Sequence[Verdict]) -> Sheet:
    """For CSV and LaTeX: a row per claim."""
    contents = [verdict.contents() for verdict in verdicts]
    rows = tuple(tuple(str(row[name]) for name in COLUMNS) for row in contents)
    return Sheet("claims", "The papers' claims", tuple(Heading(x, x) for x in COLUMNS), rows)
