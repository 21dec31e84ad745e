"""Gated positional self-attention as a part that is added to a model (ConViT)."""

from __future__ import annotations

from nearsight.models.parts.gpsa.convit import add_gpsa
from nearsight.models.parts.gpsa.gpsa import GPSA

__all__ = ["GPSA", "add_gpsa"]
