"""Tables: one table as HTML, CSV, JSON, LaTeX and in the terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from nearsight.report.write.cells import Marked, csv_text
from nearsight.report.write.table import Column, Row, Table
from nearsight.stats.estimate import Estimate

TABLE = Table(
    key="made-up",
    title="Numbers & words",
    columns=(
        Column("condition", "condition"),
        Column("accuracy", "accuracy", "share"),
        Column("change", "change", "number", digits=2),
        Column("runs", "runs", "count"),
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
HOSTILE = (
    "=HYPERLINK(1)", "+1+1", "-cmd", "@SUM(A1)", "\tx", "\rx", "\x1b[2Jgone", "[bold]x[/]",
    "$x$ & \\input{y}", "<script>alert(1)</script>", '"><i>', "{{ 7 * 7 }}", "a,b\nc",
    "\u202eright",
)  # fmt: skip


class Cells(HTMLParser):
    """The texts of a table's cells and the tags in it."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.tags, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.texts.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.texts[-1] += data


def printed(table, width=80):
    screen = Console(width=width, file=io.StringIO())
    screen.print(table.rich())
    return screen.file.getvalue()


def hostile(names=HOSTILE):
    return Table(
        "hostile", (Column("name", "name"), Column("n", "n", "count")), [(x, 1) for x in names]
    )


def test_csv_has_full_precision_and_four_columns_for_an_estimate():
    header, first, second = TABLE.csv().splitlines()
    assert header == (
        "condition,accuracy,accuracy_low,accuracy_high,accuracy_n,"
        "change,change_low,change_high,change_n,runs"
    )
    assert first == "a_b,0.5,0.4,0.6,3,-0.1,-0.2,-0.001,3,1000"
    assert second == "c,0.25,,,,,,,,7"


def test_json_has_the_names_and_numbers_of_csv():
    first, second = json.loads(TABLE.json())
    row, _ = csv.DictReader(io.StringIO(TABLE.csv()))
    assert {name: str(value) for name, value in first.items()} == row
    assert second["accuracy"] == 0.25
    assert second["change"] is None


def test_latex_escapes_words_and_puts_minus_signs_in_mathematics():
    lines = TABLE.latex().splitlines()
    assert lines[0].endswith("2 rows")
    assert r"a\_b & 50.0 \% [40.0, 60.0] & $-$0.10 [$-$0.20, 0.00] & 1,000 \\" in lines
    assert r"c & 25.0 \% & -- & 7 \\" in lines


def test_html_shows_intervals_a_dash_for_nothing_and_downloads():
    page = TABLE.html()
    assert "Numbers &amp; words" in page
    assert '50.0 % <small class="interval">40.0 to 60.0 %</small>' in page
    assert '−0.10 <small class="interval">−0.20 to 0.00</small>' in page
    assert "<td>–</td>" in page
    assert 'download="made-up.csv"' in page
    assert 'download="made-up.json"' in page
    assert 'download="made-up.tex"' in page


def test_the_terminal_shows_intervals_in_a_column_of_their_own():
    lines = [line.split("  ") for line in printed(TABLE).splitlines()]
    words = [[word.strip() for word in line if word.strip()] for line in lines]
    assert words[0] == ["Numbers & words"]
    assert " ".join(" ".join(words[1]).split()) == "condition accuracy 95 % change 95 % runs"
    assert " ".join(" ".join(words[2]).split()) == (
        "a_b 50.0% 40.0% to 60.0% −0.10 −0.20 to 0.00 1,000"
    )
    assert " ".join(" ".join(words[3]).split()) == "c 25.0% – 7"


def test_ends_of_an_interval_that_look_alike_get_one_more_digit():
    x = Estimate(0.02, 0.0198, 0.0202, 5000, "images")
    table = Table("t", (Column("a", "a"), Column("b", "b", "number")), [("x", x)])
    assert "0.0198 to 0.0202" in table.html()
    assert "[0.0198, 0.0202]" in table.latex()


def test_groups_and_references_are_shown_but_are_no_data():
    rows = [
        Row(("first_group",), "group"),
        ("a", Marked(0.5, bold=True)),
        Row(("null line", 0.75), "reference"),
    ]
    table = Table("t", (Column("name", "name"), Column("x", "x", "number")), rows)
    assert table.csv() == "name,x\na,0.5\n"
    assert json.loads(table.json()) == [{"name": "a", "x": 0.5}]
    latex = table.latex()
    assert r"\multicolumn{2}{l}{\emph{first\_group}} \\" in latex
    assert r"a & \textbf{0.500} \\" in latex
    assert "0.750" not in latex
    assert Cells(table.html()).texts == [
        "name", "x", "first_group", "a", "0.500", "null line", "0.750",
    ]  # fmt: skip
    assert [line.split() for line in printed(table).splitlines()] == [
        ["name", "x"], ["first_group"], ["a", "0.500"], ["null", "line", "0.750"],
    ]  # fmt: skip


def test_columns_appear_only_in_their_formats():
    columns = (
        Column("name", "name"),
        Column("n", "n", "count", only=("latex",)),
        Column("grid", "grid", only=("csv", "json")),
    )
    table = Table("t", columns, [("a", 5, "3x5")])
    assert table.csv() == "name,grid\na,3x5\n"
    assert r"a & 5 \\" in table.latex()
    assert Cells(table.html()).texts == ["name", "a"]
    assert printed(table).split() == ["name", "a"]


def test_names_cannot_become_formulas_in_a_spreadsheet_and_numbers_stay_numbers():
    cells = [row[0] for row in csv.reader(io.StringIO(hostile().csv()))][1:]
    assert len(cells) == len(HOSTILE)
    assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in cells)
    assert cells[:4] == ["'=HYPERLINK(1)", "'+1+1", "'-cmd", "'@SUM(A1)"]
    assert csv_text(["-head", "x"], [[-0.5, "-1.5"], [-3, "-1e-3"]]) == (
        "'-head,x\n-0.5,-1.5\n-3,-1e-3\n"
    )


def test_names_cannot_command_a_terminal():
    for text in (printed(hostile()), hostile().csv(), hostile().latex(), hostile().html()):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "[bold]x[/]" in printed(hostile())
    assert "gone" in printed(hostile())


def test_names_cannot_command_latex():
    text = hostile(("$x$ & \\input{y}", "50 %", "a\nb")).latex()
    assert r"\$x\$ \& \textbackslash{}input\{y\} & 1 \\" in text
    assert r"50 \% & 1 \\" in text
    assert r"a b & 1 \\" in text


def test_names_cannot_command_a_page():
    page = Cells(hostile().html())
    assert {"script", "i"}.isdisjoint(page.tags)
    for name in ("<script>alert(1)</script>", '"><i>', "{{ 7 * 7 }}", "$x$ & \\input{y}"):
        assert name in page.texts


@pytest.mark.parametrize("width", [40, 80])
def test_a_long_name_is_wrapped_and_its_numbers_stay_whole(width):
    table = hostile(("a long name of a model " * 6,))
    lines = printed(table, width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.rstrip().endswith(" 1") for line in lines) == 1
