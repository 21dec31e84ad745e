"""The settings of LocAt: Gaussian-augmented attention (GAug) and patch refinement (PRR)."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import Field

from nearsight.core import UserError
from nearsight.protocol.validation import choose_settings, dataclass

Width = Annotated[float, Field(ge=1e-3, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class GaussianSettings:
    """Settings of Gaussian-augmented attention: its kernel, and the kernel's width and strength.

    The defaults are those of LocAt, and the other values are the variants in its appendix.
    """

    kernel: Literal["gaussian", "laplace", "inverse"] = "gaussian"
    source: Literal["query", "input"] = "query"  # what the width is predicted from
    isotropic: bool = False  # one width for both axes; only for kernel "gaussian"
    width: Width | None = None  # a fixed standard deviation in patches; None: predicted
    strength: Literal["learned", "one", "auto"] = "learned"


@dataclass(frozen=True, kw_only=True)
class LocatSettings:
    """Settings of the two parts of LocAt; ``gaussian=None`` or ``refine=False`` leaves one out."""

    gaussian: GaussianSettings | None = GaussianSettings()
    refine: bool = True


GaussianChoice = bool | dict[str, Any] | GaussianSettings | None
LocatChoice = bool | dict[str, Any] | LocatSettings | None


def gaussian_settings(choice: GaussianChoice) -> GaussianSettings | None:
    """Convert True (the paper's settings), a dict, settings, False or None (off) into settings."""
    return choose_settings(GaussianSettings, choice, "gaussian", "GAug")


def locat_settings(choice: LocatChoice) -> LocatSettings | None:
    """Convert a choice into LocAt's settings, as ``gaussian_settings`` does for its part.

    >>> locat_settings({"gaussian": False})
    LocatSettings(gaussian=None, refine=True)
    """
    if not isinstance(choice, dict):
        return choose_settings(LocatSettings, choice, "locat", "LocAt")
    unknown = choice.keys() - {field.name for field in fields(LocatSettings)}
    if unknown:
        raise UserError(
            f"LocAt has no setting {min(unknown)!r}; its settings are gaussian and refine"
        )
    given = gaussian_settings(choice.get("gaussian", True))
    return LocatSettings(gaussian=given, refine=bool(choice.get("refine", True)))
