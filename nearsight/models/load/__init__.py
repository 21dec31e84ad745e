"""Load models from a name, a file or a hub, with their weights and image preparation."""

from __future__ import annotations

from nearsight.models.load.hub import from_hub
from nearsight.models.load.named import (
    INITIAL_SEED,
    NamedModel,
    build_model,
    built,
    named_model,
    own_image_size,
    own_preprocessing,
)
from nearsight.models.load.registry import check_name, create_model, model_for, split_name
from nearsight.models.load.weights import distinct_weights, load_weights

__all__ = [
    "INITIAL_SEED",
    "NamedModel",
    "build_model",
    "built",
    "check_name",
    "create_model",
    "distinct_weights",
    "from_hub",
    "load_weights",
    "model_for",
    "named_model",
    "own_image_size",
    "own_preprocessing",
    "split_name",
]
