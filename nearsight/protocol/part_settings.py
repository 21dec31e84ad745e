"""Settings of a model's parts from plain values: true, false, a dict, or settings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from pydantic import ValidationError

from nearsight.core import UserError
from nearsight.protocol.schema import GaussianSettings, GpsaSettings, LocatSettings

Settings = TypeVar("Settings", GaussianSettings, GpsaSettings)
GaussianChoice = bool | dict[str, Any] | GaussianSettings | None
GpsaChoice = bool | dict[str, Any] | GpsaSettings | None


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """The path of the first wrong setting, and a sentence about it."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "unexpected_keyword_argument":
        return path, f"unknown setting {path!r}"
    what = first["msg"][0].lower() + first["msg"][1:]
    return path, f"setting {path}: {what}, got {first['input']!r}"


def gaussian_settings(choice: GaussianChoice) -> GaussianSettings | None:
    """True: the paper's; a dict or settings: a variant; False or None: no GAug."""
    return _settings(GaussianSettings, choice, "gaussian", "GAug")


def gpsa_settings(choice: GpsaChoice) -> GpsaSettings | None:
    """True: the paper's; a dict or settings: a variant; False or None: no GPSA.

    >>> gpsa_settings({"strength": 2}).strength
    2.0
    """
    return _settings(GpsaSettings, choice, "gpsa", "GPSA")


def _settings(kind: type[Settings], choice: Any, option: str, what: str) -> Settings | None:
    if isinstance(choice, dict):
        try:
            return kind(**choice)
        except ValidationError as error:
            names = ", ".join(field.name for field in fields(kind))
            raise UserError(
                f"{option}: {first_mistake(error)[1]}; {what}'s settings are {names}"
            ) from None
    if isinstance(choice, bool):
        return kind() if choice else None
    if choice is None or isinstance(choice, kind):
        return choice
    raise UserError(f"expected {option} to be true, false or settings, got {choice!r}")


def locat_settings(choice: dict[str, Any]) -> LocatSettings:
    """LocAt from plain values, its ``gaussian`` as ``gaussian_settings`` takes it."""
    unknown = choice.keys() - {field.name for field in fields(LocatSettings)}
    if unknown:
        raise UserError(f"expected LocAt's settings gaussian and refine, got {min(unknown)!r}")
    given = gaussian_settings(choice.get("gaussian", True))
    return LocatSettings(gaussian=given, refine=bool(choice.get("refine", True)))
