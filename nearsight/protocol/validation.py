"""How settings are validated: frozen dataclasses of pydantic, mistakes in one sentence.

A part of a model takes its settings as true (its defaults), false or None (off), a dictionary or
the settings themselves; ``choose_settings`` makes one thing of them.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import ConfigDict, Field, ValidationError

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
Amount = Annotated[float, Field(ge=0)]

Settings = TypeVar("Settings")


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """The path of the first wrong setting, and a sentence about it."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "unexpected_keyword_argument":
        return path, f"unknown setting {path!r}"
    what = first["msg"][0].lower() + first["msg"][1:]
    return path, f"setting {path}: {what}, got {first['input']!r}"


def choose_settings(kind: type[Settings], choice: Any, option: str, what: str) -> Settings | None:
    """Return settings of this kind from true, false, None, a dictionary or settings.

    Args:
        kind: The dataclass of the settings.
        choice: True stands for the defaults, False and None for none at all.
        option: The option that ``choice`` was given as, for errors.
        what: What the settings are of, for errors.
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
    raise UserError(f"expected {option} to be true, false or settings, got {choice!r}")
