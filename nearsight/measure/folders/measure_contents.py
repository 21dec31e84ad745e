"""Make the contents of measure.json from a profile: means, intervals and null lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nearsight
from nearsight.measure.catalogue import CATALOGUE, NEAR_KINDS, metric, near_kinds
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile, null_lines
from nearsight.measure.readouts import layer_contents, overall_contents
from nearsight.runs import MEASURE_VERSION
from nearsight.stats import extreme_interval, t_interval


def measurement(profile: Profile, nulls: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the contents of measure.json that follow from the profile.

    The caller adds the data, the chosen images, the time and the hardware.

    Args:
        profile: The measurement.
        nulls: Measured null lines (see ``profile/nulls.py``), which are added to the two that every
            grid has.
    """
    return {
        "schema_version": MEASURE_VERSION,
        "nearsight": nearsight.__version__,
        "convention": asdict(profile.convention),
        "num_images": profile.num_images,
        "grid": [profile.grid.rows, profile.grid.cols],
        "num_prefix": profile.layers[0].num_prefix,
        "num_layers": len(profile.layers),
        "num_heads": [layer.num_heads for layer in profile.layers],
        "null": _null_lines(profile, profile.layers[0]) | (nulls or {}),
        "layers": [_layer(profile, index) for index in range(len(profile.layers))],
        "skipped": [{"name": name, "reason": reason} for name, reason in profile.skipped],
        "unavailable": [
            {"metric": metric, "layer": layer, "reason": reason}
            for metric, layer, reason in profile.unavailable
        ],
        **_summaries(profile),
        **overall_contents(profile.readouts),
    }


def _null_lines(profile: Profile, layer: LayerFacts) -> dict[str, float]:
    """Return the null lines of a layer's grid, with distances in the profile's convention."""
    per_diagonal = profile.convention.patch(layer.grid, layer.image_size) * layer.grid.diagonal
    return {
        line: value * per_diagonal if metric(line.partition("_")[2]).is_distance else value
        for line, value in null_lines(layer.grid, profile.metrics).items()
    }


def _layer(profile: Profile, index: int) -> dict[str, Any]:
    """Return facts, null lines and all metrics of a layer; null stands for NaN (not available)."""
    facts = profile.layers[index]
    numbers: dict[str, Any] = {
        name: _per_head(estimates, index) for name, estimates in profile.metrics.items()
    }
    if profile.position_share is not None:
        numbers["position_share"] = {"mean": profile.position_share[index].tolist()}
        numbers["head_names"] = profile.head_names[index]
    return {
        "layer": index + 1,
        **asdict(facts),
        "grid": [facts.grid.rows, facts.grid.cols],
        "null": _null_lines(profile, facts),
        **numbers,
        **layer_contents(profile.readouts, index),
    }


def _per_head(estimates: Estimates, index: int) -> dict[str, Any]:
    """Return mean, 95 % interval over images and standard deviation of every head of a layer."""
    parts = {
        "mean": estimates.mean,
        "low": estimates.low,
        "high": estimates.high,
        "sd": estimates.sd,
    }
    return {
        name: None if np.isnan(values[index]).any() else values[index].tolist()
        for name, values in parts.items()
    }


def _tensors(estimates: Estimates) -> list[Tensor]:
    """Return the values of every layer as tensors."""
    return [torch.from_numpy(values) for values in estimates.values]


def _of_mean(layers: list[Tensor]) -> dict[str, float]:
    """Return the mean over all heads of some layers, with its interval over images."""
    mean, low, high, _ = t_interval(torch.cat(layers, dim=1).mean(1))
    return {"value": mean.item(), "low": low.item(), "high": high.item()}


def layer_means(estimates: Estimates) -> list[dict[str, float]]:
    """Return the mean over the heads of every layer, with its interval over images."""
    return [_of_mean([layer]) for layer in _tensors(estimates)]


def _of_extreme(values: list[Tensor], layers: Sequence[int], largest: bool) -> dict[str, Any]:
    """Return the smallest or largest head mean of some layers, where it is, and its interval."""
    extreme = extreme_interval(torch.cat([values[i] for i in layers], dim=1).numpy(), largest)
    homes = [(i + 1, head) for i in layers for head in range(1, values[i].shape[1] + 1)]
    return {
        "value": extreme.value,
        "low": extreme.low,
        "high": extreme.high,
        "layer": homes[extreme.place][0],
        "head": homes[extreme.place][1],
        "method": "head chosen on one half of the images, estimated on the other",
    }


def _summaries(profile: Profile) -> dict[str, Any]:
    """Return the summary of the layers that an output reads and, if there are others, of all."""
    every, read = list(range(len(profile.layers))), profile.read_layers
    if not read:
        read = every
    summaries = {"summary": _summary(profile, read)}
    return (
        summaries
        if read == every
        else summaries | {"summary_of_all_layers": _summary(profile, every)}
    )


def _summary(profile: Profile, layers: list[int]) -> dict[str, Any]:
    """Return statistics over the heads of some layers, and the means of each layer of the model."""
    numbers: dict[str, Any] = {"layers": [i + 1 for i in layers]}
    for entry in CATALOGUE:
        if not entry.summary or entry.name not in profile.metrics:
            continue
        values = _tensors(profile.metrics[entry.name])
        for extreme in ("min", "max"):
            if extreme in entry.summary:
                largest = extreme == "max"
                numbers[f"{extreme}_{entry.name}"] = _of_extreme(values, layers, largest)
        numbers[f"mean_{entry.name}"] = _of_mean([values[i] for i in layers])
        numbers[f"layer_mean_{entry.name}"] = layer_means(profile.metrics[entry.name])
    if "mad" in profile.metrics:
        numbers |= _against_lines(profile, layers)
        if "self_mass" in profile.metrics:
            numbers["most_local_self_mass"] = _of_most_local(profile, numbers["min_mad"])
    return numbers


def _of_most_local(profile: Profile, least: dict[str, Any]) -> dict[str, float]:
    """Return the self-mass of the head with the smallest MAD, with its interval over images."""
    layer, head = least["layer"] - 1, least["head"] - 1
    mean, low, high, _ = t_interval(_tensors(profile.self_mass)[layer][:, head])
    return {"value": mean.item(), "low": low.item(), "high": high.item()}


def _against_lines(profile: Profile, layers: list[int]) -> dict[str, Any]:
    """Return the number of heads below the 3x3 box, and the score.

    Every layer is compared with the null lines of its own grid.
    """
    lines = [_null_lines(profile, x) for x in profile.layers]
    values = _tensors(profile.mad)
    scores = [1 - x / line["uniform_mad"] for x, line in zip(values, lines)]
    return {
        **_heads_below_box(profile, layers, [line["box_mad"] for line in lines]),
        "mean_score": _of_mean([scores[i] for i in layers]),
        "layer_mean_score": [_of_mean([layer]) for layer in scores],
    }


def _heads_below_box(profile: Profile, layers: list[int], boxes: list[float]) -> dict[str, int]:
    """Return how many heads have a MAD below that of the 3x3 box and, if self-mass tells, why."""
    mads = [x.tolist() for x in profile.mad.mean]
    if "self_mass" not in profile.metrics:
        below = [x < boxes[i] for i in layers for x in mads[i]]
        return {"heads_below_box": sum(below)}
    kinds = near_kinds(mads, [x.tolist() for x in profile.self_mass.mean], boxes)
    near = [x for i in layers for x in kinds[i] if x]
    counts = {f"{kind}_heads": near.count(kind) for kind in NEAR_KINDS}
    return {"heads_below_box": len(near), **counts}
