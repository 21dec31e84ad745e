"""The tables, lists and paragraphs of the page as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from nearsight.measure.catalogue import Number, metric, shown_in
from nearsight.report.read import Condition, Evidence, Family
from nearsight.report.write.run_details import run_entry, settings_table
from nearsight.report.write.tables import (
    gpsa_heads,
    interval_text,
    layer_rows,
    number_text,
    shown_columns,
    stands_out,
)

SWATCH = (
    '<svg width="30" height="12" viewBox="0 0 30 12" aria-hidden="true">'
    '<path d="M0 6H30" stroke="{ink}" stroke-width="2"{dash}/>{shape}</svg>'
)
NULLS = (
    "<li>On {rows}x{cols} patches uniform attention has MAD {uniform_mad:.3f}, entropy "
    "{uniform_entropy:.2f} and self-mass {uniform_self_mass:.3f}; an even 3x3 box has MAD "
    "{box_mad:.3f}, entropy {box_entropy:.2f} and self-mass {box_self_mass:.3f}.</li>"
)
GATES_NOTE = (
    "Gate: share of the attention that goes by position alone. Centre: where that part looks, in "
    "patches from the patch itself. Span: square patches; at its root from the centre the weight "
    "has fallen to 1/e. A dash: a head whose positional attention grows with the distance has no "
    "centre; PSA has no gates."
)
CIRCLE = '<circle cx="15" cy="6" r="4" fill="{ink}"/>'
SQUARE = '<path d="M11 2H19V10H11Z" fill="{ink}"/>'
TRIANGLE = '<path d="M15 1.5 19.5 10H10.5Z" fill="{ink}"/>'


def swatch(condition: Condition) -> str:
    """Colour, line and shape of a condition, as in the figures."""
    ink = f"var(--ink-{condition.colour[1:]}, {condition.colour})"
    shape = {"o": CIRCLE, "^": TRIANGLE, "s": SQUARE}[condition.marker].format(ink=ink)
    dash = "" if condition.line == "solid" else ' stroke-dasharray="6 3"'
    return SWATCH.format(ink=ink, dash=dash, shape=shape)


def legend_list(conditions: Sequence[Condition]) -> str:
    """The key of a figure whose lines are too many to be named at their ends."""
    if not conditions:
        return ""
    items = "".join(f"<li>{swatch(c)}{escape(c.label)}</li>" for c in conditions)
    return f'<ul class="legend">{items}</ul>'


def summary_table(families: list[Family]) -> str:
    """Conditions with accuracy, MAD, entropy and self-mass; null lines below each family."""
    columns = shown_columns(families)
    head = "".join(f"<th>{column.heading}</th>" for column in columns)
    body = []
    for family in families:
        if len(families) > 1:
            body.append(
                f'<tr class="family"><th colspan="{len(columns) + 1}">{escape(family.name)}'
                "</th></tr>"
            )
        body += [_condition_row(family, condition, columns) for condition in family.conditions]
        for key, name in (("uniform", "uniform attention"), ("box", "3x3 box")):
            cells = "".join(_null_cell(family.null, key, column) for column in columns)
            body.append(f'<tr class="null"><th scope="row">{name}</th>{cells}</tr>')
    return (
        f'<table class="summary"><thead><tr><th>condition</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _null_cell(null: dict[str, float], key: str, column: Number) -> str:
    line = null.get(f"{key}_{column.metric}")
    if line is None:
        return "<td></td>"
    return f'<td data-label="{column.heading}">{number_text(line)}</td>'


def _condition_row(family: Family, condition: Condition, columns: Sequence[Number]) -> str:
    cells = []
    for column in columns:
        if not condition.has(column.name):
            cells.append(f'<td data-label="{column.heading}">–</td>')
            continue
        x = condition.estimate(column.name)
        text = number_text(x.value, column.percent)
        if stands_out(family, condition, column):
            text = f"<b>{text}</b>"
        cells.append(
            f'<td data-label="{column.heading}"><span>{text}</span>'
            f'<span class="interval">{interval_text(x, column.percent)}</span>'
            f'<span class="interval">n = {x.n:,} {x.over}</span></td>'
        )
    return (
        f'<tr><th scope="row">{swatch(condition)}{escape(condition.label)}</th>'
        f"{''.join(cells)}</tr>"
    )


def interval_note(families: list[Family]) -> str:
    """What the intervals of the table are."""
    conditions = [condition for family in families for condition in family.conditions]
    counts = {condition.num_seeds for condition in conditions if not condition.is_model}
    text = []
    if any(condition.is_model for condition in conditions):
        text.append(
            "Models: 95 % interval over images (min MAD: bootstrap with the minimum recomputed)."
        )
    if counts and max(counts) > 1:
        text.append("With several seeds: mean and 95 % t-interval over seeds.")
    if 1 in counts:
        text.append(
            "With one seed: 95 % interval over test images, which says nothing about other seeds "
            "(min MAD: bootstrap with the minimum recomputed; accuracy: Wilson)."
        )
    return " ".join(text)


def head_details(families: list[Family]) -> str:
    """Folded per condition: its layers, and in it, folded per run, all heads."""
    parts = []
    for family in families:
        for condition in family.conditions:
            heads = "".join(
                f"<details><summary>{_seed_text(run)}every head</summary>"
                f"{_head_table(run)}</details>{_gate_details(run)}"
                for run in condition.runs
            )
            label, model = condition.label, condition.runs[0].model_name
            named = label if condition.is_model or model in label else f"{model} by {label}"
            parts.append(
                f"<details><summary>{escape(f'{named} on {family.where}')}</summary>"
                f"{_layer_table(condition)}{heads}</details>"
            )
    return "\n".join(parts)


def _seed_text(run: Evidence) -> str:
    return "" if run.is_model else f"seed {run.seed}: "


def _head_table(run: Evidence) -> str:
    rows = [
        (
            f"{layer + 1}.{head + 1}",
            *(
                f"{heads.mean[layer][head]:.3f} <small>{heads.low[layer][head]:.3f} to "
                f"{heads.high[layer][head]:.3f}</small>"
                for heads in run.heads.values()
            ),
        )
        for layer, of_layer in enumerate(run.heads["mad"].mean)
        for head in range(len(of_layer))
    ]
    return (
        f'<p class="note">Small: 95 % over {run.measure["num_images"]:,} images.</p>'
        f"{_numbers(('layer.head', *(metric(x).label for x in run.heads)), rows)}"
    )


def _gate_details(run: Evidence) -> str:
    """Folded: gate, centre and span of every head, where the run has GPSA."""
    rows = [
        (f"{layer}.{head}", *("–" if x is None else f"{x:.2f}" for x in numbers))
        for layer, head, *numbers in gpsa_heads(run)
    ]
    if not rows:
        return ""
    headings = ("layer.head", "gate", "centre, down", "centre, right", "span")
    return (
        f"<details><summary>{_seed_text(run)}gate, centre and span of every head</summary>"
        f'<p class="note">{GATES_NOTE}</p>{_numbers(headings, rows)}</details>'
    )


def _layer_table(condition: Condition) -> str:
    _, rows = layer_rows(condition)
    texts = [
        (
            str(row[0]),
            *(
                f"{row[i]:.3f} <small>{row[i + 1]:.3f} to {row[i + 2]:.3f}</small>"
                for i in range(1, len(row), 3)
            ),
        )
        for row in rows
    ]
    over = condition.layer_estimate("mad", 0)
    headings = ("layer", "min MAD", *(f"mean {x.label}" for x in condition.metrics))
    return (
        f'<p class="note">Small: 95 % over {over.n:,} {over.over}.</p>{_numbers(headings, texts)}'
    )


def _numbers(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def provenance_section(families: list[Family]) -> str:
    """Settings against Baseline, then every run, folded when there are many."""
    parts = []
    for family in families:
        title = f"<h3>{escape(family.name)}</h3>" if len(families) > 1 else ""
        runs = "".join(run_entry(c, run) for c in family.conditions for run in c.runs)
        count = sum(condition.num_seeds for condition in family.conditions)
        if family.is_models:
            parts.append(f"{title}{runs}")
            continue
        parts.append(
            f"{title}<p>Settings in which a condition differs from the Baseline preset of this "
            "data set (bold), and values the paper does not give (assumed).</p>"
            f"{settings_table(family)}"
            f"<details><summary>{count} run{'s' * (count > 1)}: seed, data, code, hardware, time, "
            f"command</summary>{runs}</details>"
        )
    return "".join(parts)


def reading_section(families: list[Family]) -> str:
    """MAD, entropy and self-mass in words, with the null values of every grid in the report."""
    grids = {
        grid: family.first.null(layer)
        for family in families
        for layer, grid in enumerate(family.first.grids)
    }
    lines = "".join(
        NULLS.format(rows=rows, cols=cols, **null) for (rows, cols), null in grids.items()
    )
    template = Template((files("nearsight.report") / "templates" / "reading.html").read_text())
    convention = families[0].first.measure["convention"]["text"]
    measured = {name for family in families for c in family.conditions for name in c.runs[0].heads}
    others = "".join(
        f"<p><b>{escape(x.label.capitalize())}</b>: {escape(x.meaning)}</p>"
        for x in shown_in("report")
        if x.meaning and x.name in measured
    )
    return template.substitute(nulls=lines, others=others, convention=escape(convention))
