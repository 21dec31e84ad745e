"""Make diff.json: how the measurements in two folders differ, on the same images."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import nearsight
from nearsight.core import UserError
from nearsight.measure.folders.difference import ProfileDifference, profile_difference
from nearsight.measure.profile import VALUES, Profile, read_values
from nearsight.runs import SCHEMA_VERSION, read_measured, read_record
from nearsight.runs.records import DIFF_FILE, DiffRecord

METHOD = (
    "Student's t of the per-image differences; most local: each half of the images takes the head "
    "that the other half chooses"
)


def folder_difference(a: Path, b: Path) -> DiffRecord:
    """Return the record of diff.json: b - a of two folders that ``nearsight measure`` wrote.

    Args:
        a: The folder to compare with.
        b: The other folder.

    Raises:
        UserError: If the folders were measured on different images, or cannot be compared.
    """
    first, second = _read(Path(a)), _read(Path(b))
    _check_images(first, second)
    difference = profile_difference(first["profile"], second["profile"])
    contents = {
        "schema_version": SCHEMA_VERSION,
        "nearsight": nearsight.__version__,
        "a": first["facts"],
        "b": second["facts"],
        "num_images": difference.num_images,
        "data": first["data"],
        "convention": asdict(first["profile"].convention),
        "interval": METHOD,
        "level": difference.level,
        "distance": difference.distance,
        "notes": list(difference.notes),
        "mean": {name: asdict(change) for name, change in difference.mean.items()},
        "most_local": asdict(difference.most_local),
        "layers": _layers(difference, first["profile"]),
    }
    return DIFF_FILE.record(contents)


def _read(folder: Path) -> dict[str, Any]:
    """Return what a comparison needs from one folder."""
    measured = read_measured(folder, read_record(folder))
    record, measure = measured.record, measured.measure
    profile, images = read_values(folder / VALUES)
    return {
        "folder": folder,
        "profile": profile,
        "images": images,
        "data": measure.data.contents(),
        "facts": {"folder": str(folder), "name": record.name},
    }


def _check_images(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Raise a UserError unless both folders were measured on the same images."""
    one, two = first["images"], second["images"]
    if one == two and first["data"]["hash"] == second["data"]["hash"]:
        return
    if len(one) != len(two):
        difference = f"{len(one):,} and {len(two):,} images"
    elif one != two:
        name, other = next((x, y) for x, y in zip(one, two) if x != y)
        difference = f"{name} in one where the other has {other}"
    else:
        difference = "files of the same names but with other contents"
    raise UserError(
        f"{first['folder']} and {second['folder']} were measured on different images "
        f"({difference}); measure both on the same folder and with the same --num-images"
    )


def _layers(difference: ProfileDifference, profile: Profile) -> list[dict[str, Any]]:
    """Return how every layer's mean over heads differs and, if heads correspond, each head."""
    if difference.level == "model":
        return []
    return [
        {"layer": number + 1, "name": layer.name}
        | {
            metric: {"of_mean": asdict(changes[number])} | _heads(difference, metric, number)
            for metric, changes in difference.layer_means.items()
        }
        for number, layer in enumerate(profile.layers)
    ]


def _heads(difference: ProfileDifference, metric: str, layer: int) -> dict[str, list[float]]:
    """Return the differences of the heads of a layer; nothing if heads do not correspond."""
    estimates = difference.metrics.get(metric)
    if estimates is None:
        return {}
    parts = {"mean": estimates.mean, "low": estimates.low, "high": estimates.high}
    return {part: values[layer].tolist() for part, values in parts.items()}
