"""Sheets: one table as HTML, CSV and LaTeX."""

from __future__ import annotations

from nearsight.report.write.sheet import Heading, Sheet
from nearsight.stats.estimate import Estimate

SHEET = Sheet(
    key="made-up",
    title="Numbers & words",
    headings=(
        Heading("condition", "condition"),
        Heading("accuracy", "accuracy", percent=True),
        Heading("change", "change", digits=2),
        Heading("runs", "runs"),
    ),
    rows=(
        (
            "a_b",
            Estimate(0.5, 0.4, 0.6, 3, "seeds"),
            Estimate(-0.1, -0.2, -0.001, 3, "seeds"),
            1000,
        ),
        ("c", 0.25, None, 7),
    ),
    note="2 rows",
)


def test_csv_has_full_precision_and_four_columns_for_an_estimate():
    header, first, second = SHEET.csv().splitlines()
    assert header == (
        "condition,accuracy,accuracy_low,accuracy_high,accuracy_n,"
        "change,change_low,change_high,change_n,runs"
    )
    assert first == "a_b,0.5,0.4,0.6,3,-0.1,-0.2,-0.001,3,1000"
    assert second == "c,0.25,,,,,,,,7"


def test_latex_escapes_words_and_puts_minus_signs_in_mathematics():
    lines = SHEET.latex().splitlines()
    assert lines[0].endswith("2 rows")
    assert r"a\_b & 50.0 \% [40.0, 60.0] & $-$0.10 [$-$0.20, 0.00] & 1,000 \\" in lines
    assert r"c & 25.0 \% & -- & 7 \\" in lines


def test_html_shows_intervals_a_dash_for_nothing_and_downloads():
    page = SHEET.html()
    assert "Numbers &amp; words" in page
    assert '50.0 % <small class="interval">40.0 to 60.0 %</small>' in page
    assert '−0.10 <small class="interval">−0.20 to 0.00</small>' in page
    assert "<td>–</td>" in page
    assert 'download="made-up.csv"' in page
    assert 'download="made-up.tex"' in page
