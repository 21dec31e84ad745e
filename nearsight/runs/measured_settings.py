"""Compare a measurement with the one that was asked for: convention, images and metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nearsight.runs.records import MeasureRecord

NUM_TEST_IMAGES = 5000  # as in the paper, or all if there are fewer
ALL = "all"
NEEDED = ("mad", "entropy")  # metrics that every comparison of cells needs


def measured_settings(
    num_images: int | None, convention: str, metrics: Collection[str] | str
) -> dict[str, Any]:
    """Return the settings of a measurement in the form that measure.json records."""
    names = metrics if isinstance(metrics, str) else list(metrics)
    return {"num_images": num_images, "convention": convention, "metrics": names}


def differs_from(asked: Mapping[str, Any], found: MeasureRecord) -> list[str]:
    """Describe in a few words each how a measurement differs from the one that was asked for.

    Args:
        asked: The settings that were asked for, as ``measured_settings`` returns them.
        found: The measurement.
    """
    differences = []
    if found.convention.name != asked["convention"]:
        differences.append(f"convention {found.convention.name} instead of {asked['convention']}")
    number = asked["num_images"]
    if number is None and found.num_available is not None:
        number = min(NUM_TEST_IMAGES, found.num_available)
    if number is not None and found.num_images != number:
        differences.append(f"{found.num_images} images instead of {number}")
    if missing := lost_metrics(asked["metrics"], found):
        differences.append(f"without the metrics {', '.join(missing)}")
    return differences


def lost_metrics(wanted: Collection[str] | str, found: MeasureRecord) -> list[str]:
    """Return the metrics that are wanted but were not measured.

    An older file does not record its settings; it only has to contain what every comparison needs.
    """
    if found.settings is None:
        return [name for name in NEEDED if found.summary.mean(name) is None]
    return missing_names(wanted, found.settings["metrics"])


def missing_names(wanted: Collection[str] | str, there: Collection[str] | str) -> list[str]:
    """Return the wanted metrics that are not there; ``"all"`` stands for every metric."""
    if there == ALL:
        return []
    if wanted == ALL:
        return ["all others"]
    return [name for name in wanted if name not in there]
