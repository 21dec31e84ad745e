"""Suggest the names that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.6  # similarity, from 0 to 1, below which a name is not suggested


def closest(name: str, known: Iterable[str], most: int = 3, cutoff: float = CUTOFF) -> list[str]:
    """Return the known names most like ``name``, the most similar first.

    Args:
        name: What the user typed. Case is ignored.
        known: The names that exist.
        most: How many names to return at most.
        cutoff: The smallest similarity, from 0 (any name) to 1 (the same name).

    >>> closest("Modren", ["baseline", "modern"])
    ['modern']
    """
    spelling = {each.lower(): each for each in known}
    return [spelling[x] for x in difflib.get_close_matches(name.lower(), spelling, most, cutoff)]


def suggestion(name: str, known: Iterable[str], most: int = 3, cutoff: float = CUTOFF) -> str:
    """Return the ending of an error about an unknown name.

    The arguments are those of ``closest``. The ending is empty if no known name is similar.

    >>> suggestion("quik", ["quick", "smallest"])
    '; did you mean quick?'
    >>> suggestion("resnet", ["quick", "smallest"])
    ''
    """
    close = closest(name, known, most, cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""
