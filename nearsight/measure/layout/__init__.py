"""Where the queries and keys of an attention call sit on the image, for every family of models."""

from __future__ import annotations

from nearsight.measure.layout.families import layout_of
from nearsight.measure.layout.found import keeping_places
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
    "keeping_places",
    "layout_of",
]
