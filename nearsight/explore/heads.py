"""The numbers of every head that the page shows beside the attention itself.

They come from measure.json of a measured folder, or from a profile measured for the occasion. The
looks at a run while it trained come from train.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from nearsight.runs.records import LogLine, MeasureRecord

if TYPE_CHECKING:
    from nearsight.measure.profile import Profile

METRICS = ("mad", "entropy", "self_mass")
PARTS = ("mean", "low", "high")
CONVENTION = "paper"  # the page draws distances in grid diagonals
DIGITS = 5  # behind the point


def measured_numbers(measure: MeasureRecord) -> dict[str, Any] | None:
    """Return what the page shows of a measure.json, or None where it has other units or metrics."""
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
        "gaussian": _if_any([_gaussian(layer.others.get("gaussian")) for layer in layers]),
        "gates": _if_any([_gates(layer.others.get("gpsa")) for layer in layers]),
    }


def profile_numbers(profile: Profile) -> dict[str, Any]:
    """Return the same of a profile; from a single image there are no intervals."""
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
        "gaussian": _if_any([_gaussian(layer.get("gaussian")) for layer in parts]),
        "gates": _if_any([_gates(layer.get("gpsa")) for layer in parts]),
    }


def training_looks(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """Return MAD, entropy, self-mass and gates of every head at every look of a train.jsonl."""
    found = []
    for line in lines:
        seen = line.attention
        if seen is None or any(metric not in seen.metrics for metric in METRICS):
            continue
        numbers = {metric: _rounded(seen.metrics[metric].mean) for metric in METRICS}
        gates = _if_any([_gates(layer) for layer in seen.others.get("gpsa", [])])
        look = {"epoch": line.epoch, "num_images": seen.num_images, **numbers}
        found.append(look | {"gates": gates})
    return found


def _nulls(null: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the null lines with their names: what every metric is without learning."""
    found = [
        {"name": name, **{metric: null[f"{key}_{metric}"] for metric in METRICS}}
        for key, name in (("uniform", "uniform"), ("box", "3x3 box"))
    ]
    if untrained := null.get("random_init"):
        means = {metric: fmean(untrained[f"layer_mean_{metric}"]) for metric in METRICS}
        found.append({"name": "random initialisation", **means})
    return [{key: _rounded(value) for key, value in line.items()} for line in found]


def _gaussian(layer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the widths of GAug in a layer, in patches, and its strengths."""
    if layer is None:
        return None
    return {
        name: {part: _rounded(layer[name][part]) for part in ("mean", "percentiles")}
        for name in ("deviation", "strength")
    }


def _gates(layer: dict[str, Any] | None) -> list[float] | None:
    """Return the share of positional attention of every head of a layer with GPSA."""
    return None if layer is None or layer["gate"] is None else _rounded(list(layer["gate"]))


def _if_any(layers: list[Any]) -> list[Any] | None:
    return layers if any(layer is not None for layer in layers) else None


def _rounded(value: Any) -> Any:
    """Round all numbers of nested lists, to keep the page small.

    >>> _rounded([[0.1234567, 2], "name"])
    [[0.12346, 2], 'name']
    """
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value
