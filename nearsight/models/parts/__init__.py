"""Parts that are added to a plain model, one room each, and the table of all of them."""

from __future__ import annotations

from nearsight.models.parts.gpsa import GPSA_PART
from nearsight.models.parts.locat import LOCAT_PART
from nearsight.models.parts.part import CostCounts, CostHook, CostText, HeadShare, Part
from nearsight.models.parts.read_out import Placement, ReadOut, SeenCall

# In the order in which they are installed.
PARTS: dict[str, Part] = {part.name: part for part in (GPSA_PART, LOCAT_PART)}

__all__ = [
    "PARTS",
    "CostCounts",
    "CostHook",
    "CostText",
    "HeadShare",
    "Part",
    "Placement",
    "ReadOut",
    "SeenCall",
]
