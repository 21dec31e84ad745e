"""Validate settings with pydantic dataclasses, and explain a mistake in one sentence.

The settings of a part of a model may be given as true (the defaults), false or None (off), a
dictionary, or a settings object; ``choose_settings`` converts all of them.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from nearsight.core import UserError

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = partial(
        pydantic.dataclasses.dataclass,
        config=ConfigDict(extra="forbid", allow_inf_nan=False),
    )

Probability = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
MOST = 10**9  # larger numbers overflow somewhere; no setting needs them
Amount = Annotated[float, Field(ge=0, le=MOST)]
Positive = Annotated[float, Field(gt=0, le=MOST)]
Count = Annotated[int, Field(gt=0, le=MOST)]
CountOrZero = Annotated[int, Field(ge=0, le=MOST)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that cannot be printed")
    return text


Name = Annotated[str, AfterValidator(_printable)]

Settings = TypeVar("Settings")
LONGEST = 60  # characters of a wrong value that an error shows


def shorten(value: Any) -> str:
    """Return a value as an error shows it: on one line, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first wrong setting, and a sentence about it."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "unexpected_keyword_argument":
        return path, f"unknown setting {path!r}"
    message = first["msg"].removeprefix("Value error, ")
    what = message[0].lower() + message[1:]
    return path, f"setting {path}: {what}, got {shorten(first['input'])}"


def choose_settings(kind: type[Settings], choice: Any, option: str, what: str) -> Settings | None:
    """Convert true, false, None, a dictionary or settings into settings of one kind.

    Args:
        kind: The dataclass of the settings.
        choice: What the user gave. True stands for the defaults, False and None for off.
        option: The name of the option that was given, for errors.
        what: The name of the part that the settings belong to, for errors.

    Raises:
        UserError: If a setting is unknown or wrong.
    """
    if isinstance(choice, dict):
        try:
            return kind(**choice)
        except ValidationError as error:
            names = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]
            raise UserError(
                f"{option}: {first_mistake(error)[1]}; {what}'s settings are {names}"
            ) from None
    if isinstance(choice, bool):
        return kind() if choice else None
    if choice is None or isinstance(choice, kind):
        return choice
    raise UserError(f"{option} is {shorten(choice)}, but it must be true, false or a dictionary")
