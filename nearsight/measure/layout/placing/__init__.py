"""Find where the tokens of any attention call are, by measuring the model itself.

``probe`` runs a copy of the model on noise, ``centres`` turns the responses of tokens into centres
in pixels, ``grids`` sorts centres into rows and columns, and ``folds`` distinguishes windows from
heads. ``call_places`` uses these to locate the queries and keys of one call, and ``model_places``
does so for all calls of a model. docs/places.md explains the method.
"""

from __future__ import annotations

from nearsight.measure.layout.placing.call_places import Placed, Unplaced
from nearsight.measure.layout.placing.folds import Fold
from nearsight.measure.layout.placing.model_places import ModelPlaces, PlacedCall, place_model

__all__ = ["Fold", "ModelPlaces", "Placed", "PlacedCall", "Unplaced", "place_model"]
