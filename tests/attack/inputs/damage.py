"""Ways to damage a file: as JSON, as text and as bytes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as some

NASTY_TEXT = (
    "", " ", "\x00", "\ud800", "[/x]", "[cls]", "=1+1", "@SUM(A1)", "-2", "\x1b[2J", "$\\frac{1}$",
    "../../x", "/etc/passwd", "~nosuchuser/x", "<script>alert(1)</script>", "\\write18{ls}",
    "é\u202e",
    "x" * 5000, "nan", "null", "true", "1e999", "{0.__class__}", "%s%n", "a\nb", "folder:/nowhere",
)  # fmt: skip
NASTY_NUMBERS = (
    0, -1, 1, 2, 3, 10**9, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e-320, 1e300, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
PLAIN = some.one_of(
    some.none(),
    some.booleans(),
    some.sampled_from(NASTY_NUMBERS),
    some.sampled_from(NASTY_TEXT),
    some.integers(-(2**70), 2**70),
    some.floats(),
    some.text(max_size=20),
)
VALUES = some.recursive(
    PLAIN,
    lambda inner: some.one_of(
        some.lists(inner, max_size=4),
        some.dictionaries(
            some.sampled_from(("mean", "value", "name", "x", "0")), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
DEEP = 100_000  # brackets that no file of ours has


@dataclass(frozen=True)
class JsonDamage:
    """What is done to the text of a JSON file."""

    kind: str
    at: int = 0  # which of the places in the file
    value: Any = None


def json_damages() -> some.SearchStrategy[JsonDamage]:
    """Return damages: most change one value, some the text as a whole."""
    places = some.integers(0, 10**6)
    return some.one_of(
        some.builds(JsonDamage, some.just("replace"), places, VALUES),
        some.builds(JsonDamage, some.just("replace"), places, PLAIN),
        some.builds(JsonDamage, some.just("like"), places),
        some.builds(JsonDamage, some.just("like"), places),
        some.builds(
            JsonDamage, some.sampled_from(("delete", "lengthen", "shorten", "swap")), places
        ),
        some.builds(JsonDamage, some.sampled_from(("cut", "flip", "insert")), places),
        some.builds(JsonDamage, some.sampled_from(("nest", "binary", "empty", "twice"))),
    )


def damaged_json(contents: Any, damages: list[JsonDamage]) -> bytes:
    """Return the bytes of a JSON file after all damages, in their order."""
    contents = copy.deepcopy(contents)
    for damage in damages:
        contents = _changed(contents, damage)
    text = json.dumps(contents).encode() + b"\n"
    for damage in damages:
        text = damaged_bytes(text, damage)
    return text


def damaged_bytes(text: bytes, damage: JsonDamage) -> bytes:
    """Return the bytes after one damage of bytes; other damages leave them as they are."""
    place = damage.at % max(1, len(text))
    nested = b'{"schema_version": 1, "x": ' + b"[" * DEEP + b"]" * DEEP + b"}"
    changes: dict[str, Callable[[], bytes]] = {
        "cut": lambda: text[:place],
        "flip": lambda: (
            text[:place] + bytes([text[place] ^ (1 << damage.at % 8)]) + text[place + 1 :]
        ),
        "insert": lambda: text[:place] + b'"{,\xff\x00' + text[place:],
        "nest": lambda: nested,
        "binary": lambda: bytes(range(256)),
        "empty": lambda: b"",
        "twice": lambda: text + text,
    }
    return changes[damage.kind]() if damage.kind in changes and text else text


def byte_damages() -> some.SearchStrategy[JsonDamage]:
    """Return damages of files that are not text."""
    kinds = some.sampled_from(("cut", "flip", "flip", "flip", "insert", "binary", "empty", "twice"))
    return some.builds(JsonDamage, kinds, some.integers(0, 10**7))


def places_in(contents: Any) -> list[tuple[Any, ...]]:
    """Return the path of every value inside JSON contents."""
    found: list[tuple[Any, ...]] = []
    inner = contents.items() if isinstance(contents, dict) else enumerate(contents)
    for key, value in inner:
        found.append((key,))
        if isinstance(value, dict | list):
            found += [(key, *rest) for rest in places_in(value)]
    return found


def _changed(contents: Any, damage: JsonDamage) -> Any:
    places = places_in(contents) if isinstance(contents, dict | list) else []
    if not places:
        return contents
    *parents, last = places[damage.at % len(places)]
    holder = contents
    for key in parents:
        holder = holder[key]
    value = holder[last]
    if damage.kind == "replace":
        holder[last] = damage.value
    elif damage.kind == "like":
        holder[last] = _of_the_same_kind(value, damage.at)
    elif damage.kind == "delete":
        del holder[last]
    elif damage.kind == "lengthen" and isinstance(value, list):
        value.append(value[-1] if value else 0)
    elif damage.kind == "shorten" and isinstance(value, list) and value:
        value.pop()
    elif damage.kind == "swap":
        other = places[(damage.at // 7) % len(places)]
        holder[last] = (
            _value_at(contents, other) if other[: len(parents) + 1] != (*parents, last) else 0
        )
    return contents


def _of_the_same_kind(value: Any, at: int) -> Any:
    """Return another value that passes as one of the same kind."""
    others: dict[type, list[Any]] = {
        bool: [value is False],
        int: [0, -1, 1, 2, 7, 10**9, 2**31],
        float: [0.0, -1.0, 1.0, 0.5, 1e-300, 1e300, float("nan"), float("inf")],
        str: list(NASTY_TEXT),
        list: [[], value[::-1] if isinstance(value, list) else [], [None], [[]]],
        dict: [{}, {"x": 1}],
    }
    choices = others.get(type(value), [0])
    return choices[at // 11 % len(choices)]


def _value_at(contents: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        contents = contents[key]
    return copy.deepcopy(contents)
