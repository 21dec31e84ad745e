"""The colours of figures and pages, from the palette file that the explorer uses too."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_PALETTE: dict[str, Any] = json.loads(
    (files("nearsight.report") / "templates" / "palette.json").read_text()
)
_INKS: dict[str, dict[str, str]] = _PALETTE["inks"]

VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY = (
    _INKS[name]["light"] for name in ("vermilion", "blue", "green", "purple", "orange", "sky")
)
TEXT, MUTED, RULE = (_PALETTE["figure"][name] for name in ("text", "muted", "rule"))
CONDITIONS = {name: _INKS[ink]["light"] for name, ink in _PALETTE["conditions"].items()}
OTHERS = tuple(_INKS[ink]["light"] for ink in _PALETTE["others"])  # for all other conditions
DARK = {ink["light"]: ink["dark"] for ink in _INKS.values()} | {
    _PALETTE["figure"][name]: _PALETTE["page"]["dark"][name] for name in ("text", "muted", "rule")
}


def ink_name(colour: str) -> str:
    """Return the name of a colour of the light theme.

    >>> ink_name(BLUE)
    'blue'
    """
    return next(name for name, ink in _INKS.items() if ink["light"] == colour)


def page_colours() -> dict[str, dict[str, str]]:
    """Return the colours of the page, by theme and by use.

    >>> page_colours()["dark"]["paper"]
    '#161616'
    """
    return dict(_PALETTE["page"])
