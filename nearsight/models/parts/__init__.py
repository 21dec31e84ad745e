"""Parts that can be added to a plain model, one room each, and the table that lists them."""

from __future__ import annotations

from nearsight.models.parts.all_parts import PARTS, changes_in, choose_parts, install_parts
from nearsight.models.parts.part import (
    CostCounts,
    CostHook,
    CostText,
    FeaturePlace,
    GentleStart,
    HeadShare,
    Part,
)
from nearsight.models.parts.read_out import Placement, ReadOut, SeenCall

__all__ = [
    "PARTS",
    "CostCounts",
    "CostHook",
    "CostText",
    "FeaturePlace",
    "GentleStart",
    "HeadShare",
    "Part",
    "Placement",
    "ReadOut",
    "SeenCall",
    "changes_in",
    "choose_parts",
    "install_parts",
]
