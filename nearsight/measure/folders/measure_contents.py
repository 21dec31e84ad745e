"""The contents of measure.json: a profile boiled down to means, intervals and null lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nearsight
from nearsight.measure.catalogue import CATALOGUE, metric
from nearsight.measure.layout import LayerFacts
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile, null_lines
from nearsight.measure.readouts import layer_contents, overall_contents
from nearsight.runs import MEASURE_VERSION
from nearsight.stats import extreme_interval, t_interval


def measurement(profile: Profile, nulls: dict[str, Any] | None = None) -> dict[str, Any]:
    """measure.json without what only the run knows (data, images chosen, time, hardware).

    ``nulls``: those that were measured (see nulls.py), beside the two every grid has.
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
        "summary": _summary(profile),
        **overall_contents(profile.readouts),
    }


def _null_lines(profile: Profile, layer: LayerFacts) -> dict[str, float]:
    """Null lines of a layer's grid with distances as the profile's convention counts them."""
    per_diagonal = profile.convention.patch(layer.grid, layer.image_size) * layer.grid.diagonal
    return {
        line: value * per_diagonal if metric(line.partition("_")[2]).is_distance else value
        for line, value in null_lines(layer.grid, profile.metrics).items()
    }


def _layer(profile: Profile, index: int) -> dict[str, Any]:
    """Facts, null lines and every metric of a layer; NaN (not available) becomes null."""
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
    """Mean, 95 % interval over images and standard deviation of every head of a layer."""
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
    return [torch.from_numpy(values) for values in estimates.values]


def _of_mean(layers: list[Tensor]) -> dict[str, float]:
    """Mean over all heads of the layers given, with its interval over images."""
    mean, low, high, _ = t_interval(torch.cat(layers, dim=1).mean(1))
    return {"value": mean.item(), "low": low.item(), "high": high.item()}


def layer_means(estimates: Estimates) -> list[dict[str, float]]:
    """Mean over the heads of every layer, with its interval over images."""
    return [_of_mean([layer]) for layer in _tensors(estimates)]


def _of_extreme(layers: list[Tensor], largest: bool) -> dict[str, Any]:
    """The smallest or largest head mean, where it is, and its interval over images."""
    values = torch.cat(layers, dim=1)  # [image, head of all layers]
    found = extreme_interval(values.numpy(), largest)
    homes = [
        (layer, head) for layer, x in enumerate(layers, 1) for head in range(1, x.shape[1] + 1)
    ]
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "layer": homes[found.place][0],
        "head": homes[found.place][1],
        "method": "head chosen on one half of the images, estimated on the other",
    }


def _summary(profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in CATALOGUE:
        if not entry.summary or entry.name not in profile.metrics:
            continue
        layers = _tensors(profile.metrics[entry.name])
        for extreme in ("min", "max"):
            if extreme in entry.summary:
                largest = extreme == "max"
                found[f"{extreme}_{entry.name}"] = _of_extreme(layers, largest)
        found[f"mean_{entry.name}"] = _of_mean(layers)
        found[f"layer_mean_{entry.name}"] = layer_means(profile.metrics[entry.name])
    if "mad" in profile.metrics:
        found |= _against_lines(profile)
        if "self_mass" in profile.metrics:
            found["most_local_self_mass"] = _of_most_local(profile, found["min_mad"])
    return found


def _of_most_local(profile: Profile, least: dict[str, Any]) -> dict[str, float]:
    """The self-mass of the head with the smallest MAD, with its interval over images."""
    layer, head = least["layer"] - 1, least["head"] - 1
    mean, low, high, _ = t_interval(_tensors(profile.self_mass)[layer][:, head])
    return {"value": mean.item(), "low": low.item(), "high": high.item()}


def _against_lines(profile: Profile) -> dict[str, Any]:
    """MAD against the lines of each layer's own grid: heads below the box, and the score."""
    lines = [_null_lines(profile, x) for x in profile.layers]
    layers = _tensors(profile.mad)
    below = [(x.mean(0) < line["box_mad"]).sum().item() for x, line in zip(layers, lines)]
    scores = [1 - x / line["uniform_mad"] for x, line in zip(layers, lines)]
    return {
        "heads_below_box": int(sum(below)),
        "mean_score": _of_mean(scores),
        "layer_mean_score": [_of_mean([layer]) for layer in scores],
    }
