"""Register our models with timm, so that ``timm.create_model`` builds them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearsight.models.compat import declare_missing_ops
from nearsight.models.zoo.architectures import build_named
from nearsight.models.zoo.names import ARCHITECTURES

declare_missing_ops()

from timm.models import is_model, register_model  # noqa: E402


def register_with_timm() -> None:
    """Add our names to timm's registry, except those that timm already has."""
    for name in ARCHITECTURES:
        if not is_model(name):
            register_model(_entry(name))


def _entry(name: str) -> Callable[..., Any]:
    """Return the function that timm calls to build the model of a name."""

    def entry(pretrained: bool = False, **options: Any) -> Any:
        return build_named(name, pretrained, options)

    entry.__name__ = entry.__qualname__ = name
    return entry
