"""Find where the queries and keys of an attention call are on the image, in any model."""

from __future__ import annotations

from nearsight.measure.layout.families import layout_of
from nearsight.measure.layout.found import keep_places
from nearsight.measure.layout.geometry import MAX_RADIUS, Geometry
from nearsight.measure.layout.placing import Fold
from nearsight.measure.layout.tokens import LayerFacts, Layout, Skipped

__all__ = [
    "MAX_RADIUS",
    "Fold",
    "Geometry",
    "LayerFacts",
    "Layout",
    "Skipped",
    "keep_places",
    "layout_of",
]
