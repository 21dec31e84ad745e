"""Write the cells of a table as text that is safe for the program that opens it.

Numbers get a real minus sign and as many digits as their column asks for; the two ends of an
interval get one more digit where they would otherwise be equal. Text from outside (names of models,
data sets and conditions) cannot become a formula in a spreadsheet, a command of LaTeX or a control
sequence of a terminal.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nearsight.core import printable
from nearsight.report.read import ConditionRuns
from nearsight.stats import Estimate

Value = str | int | float | Estimate | None
Kind = Literal["text", "count", "number", "share", "points"]
NOTHING = "–"
NOT_MEASURED = "not measured"
FORMULA = tuple("=+-@\t\r")  # a spreadsheet reads a cell that begins with one of these as a formula
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "−": "$-$",
    "–": "--",
    "\n": " ",
}


@dataclass(frozen=True)
class Marked:
    """A value with its emphasis: bold, as code, with a tag behind it, or with a swatch."""

    value: Value
    bold: bool = False
    code: bool = False
    tag: str = ""
    swatch: ConditionRuns | None = None  # its colour, line and shape, as in the figures


Cell = Value | Marked


@dataclass(frozen=True)
class NumberStyle:
    """The format of the numbers of a column.

    Attributes:
        kind: A ``share`` is written in percent, and ``points`` are shares in percentage points
            (without a unit). Numbers of any other kind are written as they are.
        digits: Digits after the decimal point; shares and points always have one.
        unit: Text behind the number.
        plus: Whether positive numbers get a plus sign.
    """

    kind: Kind = "number"
    digits: int = 3
    unit: str = ""
    plus: bool = False

    def number(self, value: float, digits: int | None = None) -> str:
        """Format a number without its unit.

        >>> NumberStyle().number(0.41785), NumberStyle("share").number(-0.6338)
        ('0.418', '−63.4')
        """
        scale = 100 if self.kind in ("share", "points") else 1
        sign = "+" if self.plus else ""
        return with_minus_sign(
            f"{scale * value:{sign}.{self.decimals if digits is None else digits}f}"
        )

    def value(self, value: float) -> str:
        """Format a number with its unit."""
        return f"{self.number(value)}{self.ending}"

    def bounds(self, estimate: Estimate) -> tuple[str, str]:
        """Format both ends of an interval, with one more digit where they would be equal.

        >>> NumberStyle().bounds(Estimate(0.02, 0.0198, 0.0202, 5000, "images"))
        ('0.0198', '0.0202')
        """
        low, high = self.number(estimate.low), self.number(estimate.high)
        if low == high:
            more = self.decimals + 1
            return self.number(estimate.low, more), self.number(estimate.high, more)
        return low, high

    def interval(self, estimate: Estimate) -> str:
        """Format an interval with its unit.

        >>> NumberStyle("share").interval(Estimate(0.5, 0.4, 0.6, 3, "seeds"))
        '40.0 to 60.0 %'
        """
        return f"{' to '.join(self.bounds(estimate))}{self.ending}"

    def compact(self, value: float) -> str:
        """Format a number for the terminal: fewer digits from 10 on, no space before the unit.

        >>> style = NumberStyle()
        >>> style.compact(0.08125), style.compact(113.0417), NumberStyle("points").compact(-0.0999)
        ('0.081', '113.0', '−10')
        """
        text = self.number(value)
        if self.kind != "share" and len(text.lstrip("+−").partition(".")[0]) > 1:
            text = self.number(value, max(0, self.decimals - 2))
        return f"{text}{self.ending.strip()}"

    @property
    def decimals(self) -> int:
        """The number of digits after the decimal point."""
        return 1 if self.kind in ("share", "points") else self.digits

    @property
    def ending(self) -> str:
        """The unit with its space."""
        return " %" if self.kind == "share" else self.unit


def with_minus_sign(text: str) -> str:
    """Replace the hyphen of a formatted number by a minus sign, and drop the sign of a zero.

    >>> with_minus_sign("-0.000"), with_minus_sign("-0.010"), with_minus_sign("+0.0")
    ('0.000', '−0.010', '0.0')
    """
    return re.sub(r"^[+-](0(?:\.0+)?)$", r"\1", text).replace("-", "−")


def latex_text(text: str) -> str:
    r"""Escape text so that LaTeX prints it unchanged.

    >>> latex_text("nano_vit & 50 %")
    'nano\\_vit \\& 50 \\%'
    """
    return "".join(LATEX_SPECIAL.get(sign, sign) for sign in printable(text))


def spreadsheet_text(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would read as a formula.

    >>> spreadsheet_text("=1+1"), spreadsheet_text("a=b"), spreadsheet_text("-0.5")
    ("'=1+1", 'a=b', '-0.5')
    """
    if not text.startswith(FORMULA) or _is_number(text):
        return printable(text)
    return f"'{printable(text)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """Write rows as CSV, with numbers in full precision and text that cannot act as a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([spreadsheet_text(name) for name in header])
    for row in rows:
        writer.writerow([spreadsheet_text(x) if isinstance(x, str) else x for x in row])
    return buffer.getvalue()
