"""Define a table or figure of a paper: the recipe that makes it, and the numbers it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nearsight.core import UserError
from nearsight.study.design import Level

Paper = Literal["protocol", "locat", "convit"]
PAPERS: dict[Paper, str] = {  # the start of the sources of claims, and the authors
    "protocol": "protocol paper (Toledo and Martínez, arXiv 2605.16390)",
    "locat": "LocAt (Hajimiri et al., arXiv 2603.04892)",
    "convit": "ConViT (d'Ascoli et al., arXiv 2103.10697)",
}
ITEM = re.compile(r"(tables?|figures?) ([^,;.()]+(?:, \([a-g]\)[^,;]*)?)")
NUMBER = re.compile(r"\d+[a-g]?")


@dataclass(frozen=True)
class ItemRow:
    """A row of a paper's table: its condition in the recipe, and the printed numbers.

    Accuracy and mIoU are shares here, while papers print percent.
    """

    name: str
    factors: Mapping[str, Level]
    printed: Mapping[str, float]  # by the name of the number; absent: not printed


@dataclass(frozen=True, kw_only=True)
class PaperItem:
    """A table or figure of a paper.

    Args:
        paper: A key of PAPERS.
        label: Such as "table 3" or "figure 8a", or "outlook ii" for a question that a paper asks.
        title: What it shows.
        recipe: The study that makes it. None if no study does; ``reason`` then says why.
        also: Further recipes with the same conditions.
        shown: Where the page shows the numbers, if not in a table beside the paper's.
        command: A command to run besides or instead of the study.
        reason: Why there is no recipe.
        rows: The rows of the paper's table.
    """

    paper: Paper
    label: str
    title: str
    recipe: str | None = None
    also: tuple[str, ...] = ()
    shown: str = ""
    command: str = ""
    reason: str = ""
    rows: tuple[ItemRow, ...] = ()

    @property
    def key(self) -> str:
        """The name for files: ``locat-table-1``."""
        return f"{self.paper}-{self.label}".replace(" ", "-")

    @property
    def recipes(self) -> tuple[str, ...]:
        """All recipes that make this table or figure."""
        return () if self.recipe is None else (self.recipe, *self.also)

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the numbers that the paper prints, in its order."""
        return tuple(dict.fromkeys(value for row in self.rows for value in row.printed))

    def is_source(self, text: str) -> bool:
        """Return whether the source of a claim names this table or figure.

        A claim about a whole figure is also about each of its parts, and vice versa.
        """
        start = PAPERS[self.paper].partition(" (")[0]
        return text.startswith(start) and any(_overlap(self.label, x) for x in named_items(text))


def named_items(text: str) -> Iterator[str]:
    """Yield the tables and figures that a sentence names.

    >>> list(named_items("LocAt, tables 1 and 3, figure 8a"))
    ['table 1', 'table 3', 'figure 8a']
    """
    for kind, numbers in ITEM.findall(text):
        for number in NUMBER.findall(numbers):
            yield f"{kind.removesuffix('s')} {number}"


def _overlap(one: str, other: str) -> bool:
    (kind, number), (other_kind, other_number) = one.split(), other.split()
    if kind != other_kind:
        return False
    whole = number.isdigit() or other_number.isdigit()
    return number.rstrip("abc") == other_number.rstrip("abc") if whole else number == other_number


def table_rows(
    text: str, factors: Sequence[str], values: Sequence[str], per: float = 100.0
) -> tuple[ItemRow, ...]:
    """Read rows from text, each with levels of factors, a bar, and numbers in percent.

    A level is on, off, a number or a word. Semicolons separate levels, and - stands for a number
    that is not printed. With ``per``, numbers are divided by it instead of 100.

    >>> (row,) = table_rows("ViT; off | 72.39 -", ["backbone", "locat"], ["accuracy", "miou"])
    >>> row.name, row.factors, row.printed
    ('ViT, off', {'backbone': 'ViT', 'locat': False}, {'accuracy': 0.7239})
    """
    found = []
    for line in text.strip().splitlines():
        levels, bar, numbers = line.partition("|")
        words = [word.strip() for word in levels.split(";")]
        shares = numbers.split()
        if not bar or len(words) != len(factors) or len(shares) != len(values):
            raise UserError(
                f"a row needs {len(factors)} levels, a bar and {len(values)} numbers, but one is "
                f"{line!r}"
            )
        printed = {
            name: round(float(share) / per, 6)
            for name, share in zip(values, shares)
            if share != "-"
        }
        level = {name: _level(word) for name, word in zip(factors, words)}
        found.append(ItemRow(", ".join(words), level, printed))
    return tuple(found)


def _level(word: str) -> Level:
    known: dict[str, Level] = {"on": True, "off": False}
    try:
        return known[word] if word in known else float(word)
    except ValueError:
        return word
