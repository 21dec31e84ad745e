"""nearsight: how local is a Vision Transformer's attention, what makes it local, is local better?

The names below are imported when first used, so that ``import nearsight`` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Grid": "nearsight.models.grid",
    "create_model": "nearsight.models.registry",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearsight' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
