"""Store a profile as one safetensors file: every metric per image and head.

There is one float64 array per metric and layer, named for example ``mad.3`` (layers are counted
from 0). It is [image, head], or [image, head, number] for a metric with a few numbers per head. The
header holds the names of the images, the facts of the layers and the read-outs of the model's
parts. ``measure.safetensors`` in a run folder is such a file. With the values of every image, two
models can be compared image by image.
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
from nearsight.measure.catalogue import METRIC_NAMES
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics import Estimates, convention_of
from nearsight.measure.profile.profile import Profile
from nearsight.measure.readouts import read_collection, written_collection
from nearsight.models.layers import Grid

VALUES = "measure.safetensors"
MOST_PER_HEAD = 4  # metrics with more numbers per head are left out; measure.json has their means
POSITION_SHARE = "position_share"  # an array [head] over all images, without values per image


def write_values(
    path: str | Path,
    profile: Profile,
    image_names: Sequence[str] | None = None,
    most_per_head: int | None = MOST_PER_HEAD,
) -> Path:
    """Write a profile to a file and return its path.

    Args:
        path: The file; its folder must exist.
        profile: The measurement.
        image_names: Names of the images; by default their numbers.
        most_per_head: Leave out metrics with more numbers per head and image; None keeps all.

    Raises:
        UserError: If there is not one name for each image, or the folder is missing.
    """
    target = Path(path)
    try:
        write_bytes(target, values_bytes(profile, image_names, most_per_head))
    except FileNotFoundError as error:
        raise UserError(
            f"cannot write {target}: there is no folder {target.parent}; create it first"
        ) from error
    return target


def values_bytes(
    profile: Profile,
    image_names: Sequence[str] | None = None,
    most_per_head: int | None = MOST_PER_HEAD,
) -> bytes:
    """Return the content of the file that ``write_values`` writes.

    Args:
        profile: The measurement.
        image_names: Names of the images; by default their numbers.
        most_per_head: Leave out metrics with more numbers per head and image; None keeps all.

    Raises:
        UserError: If there is not one name for each image.
    """
    names = [str(i) for i in range(profile.num_images)] if image_names is None else image_names
    if len(names) != profile.num_images:
        raise UserError(
            f"there are {profile.num_images} images but {len(names)} names; pass one name per image"
        )
    arrays = {
        f"{name}.{layer}": np.ascontiguousarray(values, np.float64)
        for name, estimates in profile.metrics.items()
        for layer, values in enumerate(estimates.values)
        if most_per_head is None or math.prod(values.shape[2:]) <= most_per_head
    }
    for layer, shares in enumerate(profile.position_share or ()):
        arrays[f"{POSITION_SHARE}.{layer}"] = np.ascontiguousarray(shares, np.float64)
    header = {
        "model": [profile.name, profile.num_parameters, profile.seconds],
        "images": list(names),
        "layers": [asdict(layer) for layer in profile.layers],
        "skipped": profile.skipped,
        "unavailable": profile.unavailable,
        "convention": profile.convention.name,
        "readouts": written_collection(profile.readouts),
    }
    text = {key: json.dumps(value) for key, value in header.items()}
    return save(arrays, metadata=text)


def read_values(path: str | Path) -> tuple[Profile, list[str]]:
    """Return the profile and the names of its images from a file that ``write_values`` wrote.

    Raises:
        UserError: If the file is missing or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"there is no file {path}, which should hold the values of every image; "
            "run nearsight measure again"
        )
    try:
        with safe_open(path, "numpy") as file:
            header = {key: json.loads(text) for key, text in file.metadata().items()}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        layers = tuple(_facts(layer) for layer in header["layers"])
        numbered = range(len(layers))
        names = {key.rpartition(".")[0] for key in arrays}
        metrics = {
            name: Estimates([arrays[f"{name}.{layer}"] for layer in numbered])
            for name in sorted(names - {POSITION_SHARE}, key=METRIC_NAMES.index)
        }
        shares = [
            arrays[f"{POSITION_SHARE}.{layer}"] for layer in numbered if POSITION_SHARE in names
        ]
        profile = Profile(
            layers,
            tuple((name, reason) for name, reason in header["skipped"]),
            metrics,
            convention_of(header["convention"]),
            tuple((name, layer, reason) for name, layer, reason in header.get("unavailable", ())),
            tuple(shares) or None,
            read_collection(header.get("readouts", {})),
            *header.get("model", ()),
        )
        return profile, header["images"]
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); run nearsight measure again") from error


def load_profile(path: str | Path) -> Profile:
    """Return a profile that ``Profile.save`` or ``nearsight measure`` wrote.

    Args:
        path: A file written by ``save``, or ``measure.safetensors`` of a measured folder, which
            lacks metrics with many numbers per head (masses by distance).

    Raises:
        UserError: If the file is missing or damaged.

    >>> import tempfile, torch
    >>> from nearsight.measure.profile import measure_model
    >>> from nearsight.models.load import create_model
    >>> profile = measure_model(create_model("mu"), torch.zeros(3, 3, 32, 32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_profile(profile.save(f"{folder}/mu.safetensors")) == profile
    True
    """
    if not Path(path).is_file():
        raise UserError(f"there is no file {path}; Profile.save and nearsight measure write one")
    return read_values(path)[0]


def _facts(layer: dict[str, Any]) -> LayerFacts:
    """Restore the facts of a layer from JSON, which has no tuples and no grids."""
    size = layer["image_size"]
    own = {"grid": Grid(**layer["grid"]), "image_size": tuple(size) if size else None}
    return LayerFacts(**layer | own)
