"""Gather the numbers of every head that the page shows beside the attention itself.

The numbers come from the measure.json of a measured folder, or from a profile that is measured for
the page. Measurements during training come from train.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from nearsight.report.figures.parts import page_numbers
from nearsight.runs.records import LogLine, MeasureRecord

if TYPE_CHECKING:
    from nearsight.measure.profile import Profile

METRICS = ("mad", "entropy", "self_mass")
PARTS = ("mean", "low", "high")
CONVENTION = "paper"  # the page draws distances in grid diagonals
DIGITS = 5  # decimal places


def measured_numbers(measure: MeasureRecord) -> dict[str, Any] | None:
    """Return the numbers of a measure.json, or None if its units or metrics do not fit the page."""
    layers, found = measure.layers, [layer.metrics for layer in measure.layers]
    known = all(metric in metrics for metrics in found for metric in METRICS)
    if measure.convention.name != CONVENTION or not known:
        return None
    named = all(layer.head_names is not None for layer in layers)
    return {
        "num_images": measure.num_images,
        **{
            metric: {part: _rounded([getattr(x[metric], part) for x in found]) for part in PARTS}
            for metric in METRICS
        },
        "names": [layer.head_names for layer in layers] if named else None,
        "null": _nulls(measure.null.contents()),
        "read_outs": _rounded(page_numbers([layer.others for layer in layers])),
    }


def profile_numbers(profile: Profile) -> dict[str, Any]:
    """Return the numbers of a profile, without intervals if it has a single image."""
    from nearsight.measure.profile import null_lines
    from nearsight.measure.readouts import layer_contents

    several = profile.num_images > 1
    parts = [
        layer_contents(profile.readouts, i) if several else {} for i in range(len(profile.layers))
    ]
    return {
        "num_images": profile.num_images,
        **{
            metric: {
                part: _rounded([x.tolist() for x in getattr(profile.metrics[metric], part)])
                for part in (PARTS if several else PARTS[:1])
            }
            for metric in METRICS
        },
        "names": profile.head_names if profile.position_share is not None else None,
        "null": _nulls(null_lines(profile.grid)),
        "read_outs": _rounded(page_numbers(parts)),
    }


def training_looks(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """Return MAD, entropy, self-mass and read-outs of each measurement during training."""
    found = []
    for line in lines:
        seen = line.attention
        if seen is None or any(metric not in seen.metrics for metric in METRICS):
            continue
        numbers = {metric: _rounded(seen.metrics[metric].mean) for metric in METRICS}
        by_layer = {key: value for key, value in seen.others.items() if isinstance(value, list)}
        layers = [
            {key: value[i] for key, value in by_layer.items() if i < len(value)}
            for i in range(max(map(len, by_layer.values()), default=0))
        ]
        look = {"epoch": line.epoch, "num_images": seen.num_images, **numbers}
        found.append(look | {"read_outs": _rounded(page_numbers(layers))})
    return found


def _nulls(null: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the named null lines: the values that each metric has without learning."""
    found = [
        {"name": name, **{metric: null[f"{key}_{metric}"] for metric in METRICS}}
        for key, name in (("uniform", "uniform"), ("box", "3x3 box"))
    ]
    if untrained := null.get("random_init"):
        means = {metric: fmean(untrained[f"layer_mean_{metric}"]) for metric in METRICS}
        found.append({"name": "random initialisation", **means})
    return [{key: _rounded(value) for key, value in line.items()} for line in found]


def _rounded(value: Any) -> Any:
    """Round all numbers of nested lists and dictionaries, to keep the page small.

    >>> _rounded([[0.1234567, 2], "name"])
    [[0.12346, 2], 'name']
    """
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value
