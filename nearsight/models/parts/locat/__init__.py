"""LocAt as a part that is added to a model: Gaussian-augmented attention and patch refinement."""

from __future__ import annotations

from nearsight.models.parts.locat.declaration import LOCAT_PART
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.models.parts.locat.locat import add_locat, from_scratch, has_locat
from nearsight.models.parts.locat.refinement import Refine, refine
from nearsight.models.parts.locat.widths import LayerWidths, WidthReadOut

__all__ = [
    "LOCAT_PART",
    "Gaussian",
    "LayerWidths",
    "Refine",
    "WidthReadOut",
    "add_locat",
    "from_scratch",
    "has_locat",
    "refine",
]
