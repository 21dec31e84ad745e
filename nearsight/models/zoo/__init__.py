"""Architectures by name: ours, and the published LocAt, Jumbo, ConViT and DeiT models."""

from __future__ import annotations

from nearsight.models.zoo.architectures import build_named
from nearsight.models.zoo.names import ARCHITECTURES, part_of
from nearsight.models.zoo.own import CONVIT_HEADS, full_name, model_names, own_model
from nearsight.models.zoo.registration import register_with_timm

__all__ = [
    "ARCHITECTURES",
    "CONVIT_HEADS",
    "build_named",
    "full_name",
    "model_names",
    "own_model",
    "part_of",
    "register_with_timm",
]
