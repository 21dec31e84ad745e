"""measure.safetensors: every metric per image and head, so that two models compare in pairs.

One float64 array [image, head] or [image, head, few] per metric and layer, named ``mad.3`` (layers
counted from 0). The header holds the names of the images and the facts of the layers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearsight.core import UserError, write_bytes
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics import Estimates, convention_of
from nearsight.measure.profile import Profile
from nearsight.models.layers import Grid

VALUES = "measure.safetensors"
MOST_PER_HEAD = 4  # numbers; longer ones (distance profiles) are in measure.json as means only


def write_values(path: Path, profile: Profile, image_names: Sequence[str]) -> None:
    """Write the values of ``profile``; ``image_names`` say which image is which."""
    if len(image_names) != profile.num_images:
        raise UserError(
            f"expected a name for each of the {profile.num_images} images, got {len(image_names)}"
        )
    arrays = {
        f"{name}.{layer}": np.ascontiguousarray(values, np.float64)
        for name, estimates in profile.metrics.items()
        for layer, values in enumerate(estimates.values)
        if math.prod(values.shape[2:]) <= MOST_PER_HEAD
    }
    header = {
        "images": list(image_names),
        "layers": [asdict(layer) for layer in profile.layers],
        "skipped": profile.skipped,
        "convention": profile.convention.name,
    }
    text = {key: json.dumps(value) for key, value in header.items()}
    write_bytes(path, save(arrays, metadata=text))


def read_values(path: Path) -> tuple[Profile, list[str]]:
    """The profile and the names of its images, as ``write_values`` left them."""
    if not path.is_file():
        raise UserError(
            f"expected the values of every image in {path}, but there is no such file; "
            "run nearsight measure again"
        )
    try:
        with safe_open(path, "numpy") as file:
            header = {key: json.loads(text) for key, text in file.metadata().items()}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        layers = tuple(_facts(layer) for layer in header["layers"])
        names = dict.fromkeys(key.rpartition(".")[0] for key in arrays)
        metrics = {
            name: Estimates([arrays[f"{name}.{layer}"] for layer in range(len(layers))])
            for name in names
        }
        skipped = tuple((name, reason) for name, reason in header["skipped"])
        profile = Profile(layers, skipped, metrics, convention_of(header["convention"]))
        return profile, header["images"]
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); run nearsight measure again") from error


def _facts(layer: dict[str, Any]) -> LayerFacts:
    """JSON has lists for tuples and dictionaries for grids."""
    size = layer["image_size"]
    own = {"grid": Grid(**layer["grid"]), "image_size": tuple(size) if size else None}
    return LayerFacts(**layer | own)
