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
    """Gaussian-augmented attention: the kernel's shape, and where width and strength come from.

    The defaults are LocAt's; the other values are the variants of its appendix.
    """

    kernel: Literal["gaussian", "laplace", "inverse"] = "gaussian"
    source: Literal["query", "input"] = "query"  # what the width is predicted from
    isotropic: bool = False  # one width for both axes; only for kernel "gaussian"
    width: Width | None = None  # a fixed standard deviation in patches; None: predicted
    strength: Literal["learned", "one", "auto"] = "learned"


@dataclass(frozen=True, kw_only=True)
class LocatSettings:
    """The two parts of LocAt; ``gaussian=None`` or ``refine=False`` leaves one out."""

    gaussian: GaussianSettings | None = GaussianSettings()
    refine: bool = True


GaussianChoice = bool | dict[str, Any] | GaussianSettings | None
LocatChoice = bool | dict[str, Any] | LocatSettings | None


def gaussian_settings(choice: GaussianChoice) -> GaussianSettings | None:
    """Return GAug's settings from True (the paper's), a dict, settings, or False or None (off)."""
    return choose_settings(GaussianSettings, choice, "gaussian", "GAug")


def locat_settings(choice: LocatChoice) -> LocatSettings | None:
    """Return LocAt's settings; ``gaussian`` may be anything that ``gaussian_settings`` takes.

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
