"""The contents of measure.json: a profile boiled down to means, intervals and null lines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import nearsight
from nearsight.measure.distance import mean_attention_distance
from nearsight.measure.entropy import attention_entropy
from nearsight.measure.interval import (
    RESAMPLES,
    bootstrap_interval,
    normal_interval,
    resample_counts,
)
from nearsight.measure.mass import self_mass
from nearsight.measure.profile import METRICS, Profile
from nearsight.models.grid import Grid

SCHEMA_VERSION = 1
CONVENTION = {
    "name": "paper",
    "unit": "grid diagonal",
    "prefix": "dropped",
    "rows": "renormalised",
    "entropy": "mean of row entropies / log N",
    "text": "Attention between patches only: prefix tokens dropped, rows renormalised; distance in "
    "units of the grid diagonal; entropy is the mean of the rows' entropies divided by log N; "
    "per image, then the mean over images.",
}


def null_lines(grid: Grid) -> dict[str, float]:
    """What uniform attention and an even 3x3 box (cut at the edge) score on this grid."""
    near = grid.box().double()
    patterns = {"uniform": torch.ones_like(near), "box": near}
    lines = {}
    for name, pattern in patterns.items():
        attention = (pattern / pattern.sum(-1, keepdim=True))[None, None]
        lines[f"{name}_mad"] = mean_attention_distance(attention, grid).item()
        lines[f"{name}_entropy"] = attention_entropy(attention).item()
        lines[f"{name}_self_mass"] = self_mass(attention).item()
    return lines


def _per_head(values: Tensor) -> dict[str, list[float]]:
    """Mean, 95 % interval over images and standard deviation of every head of a layer."""
    return dict(zip(("mean", "low", "high", "sd"), (x.tolist() for x in normal_interval(values))))


def _of_mean(layers: tuple[Tensor, ...]) -> dict[str, float]:
    """Mean over all heads of the layers given, with its interval over images."""
    mean, low, high, _ = normal_interval(torch.cat(layers, dim=1).mean(1))
    return {"value": mean.item(), "low": low.item(), "high": high.item()}


def _of_extreme(layers: tuple[Tensor, ...], counts: Tensor, largest: bool) -> dict[str, Any]:
    """The smallest or largest head mean, where it is, and its bootstrap interval."""
    values = torch.cat(layers, dim=1)  # [image, head of all layers]
    means = values.mean(0)
    place = int(means.argmax() if largest else means.argmin())
    homes = [
        (layer, head) for layer, x in enumerate(layers, 1) for head in range(1, x.shape[1] + 1)
    ]
    value, low, high = bootstrap_interval(
        values, counts, lambda x: x.amax(-1) if largest else x.amin(-1)
    )
    word = "maximum" if largest else "minimum"
    return {
        "value": value,
        "low": low,
        "high": high,
        "layer": homes[place][0],
        "head": homes[place][1],
        "method": f"bootstrap over images, {word} recomputed",
        "resamples": RESAMPLES,
    }


def measurement(profile: Profile) -> dict[str, Any]:
    """measure.json without what only the run knows (data, images chosen, time, hardware)."""
    nulls = null_lines(profile.grid)
    counts = resample_counts(profile.num_images)
    means = torch.cat([layer.mean(0) for layer in profile.mad])
    layers = [
        {"layer": number} | {name: _per_head(values) for name, values in zip(METRICS, metrics)}
        for number, metrics in enumerate(
            zip(profile.mad, profile.entropy, profile.self_mass, strict=True), 1
        )
    ]
    summary = {
        "min_mad": _of_extreme(profile.mad, counts, largest=False),
        "max_mad": _of_extreme(profile.mad, counts, largest=True),
        "mean_mad": _of_mean(profile.mad),
        "min_entropy": _of_extreme(profile.entropy, counts, largest=False),
        "max_entropy": _of_extreme(profile.entropy, counts, largest=True),
        "mean_entropy": _of_mean(profile.entropy),
        "mean_self_mass": _of_mean(profile.self_mass),
        "heads_below_box": int((means < nulls["box_mad"]).sum()),
        "layer_mean_mad": [_of_mean((layer,)) for layer in profile.mad],
        "layer_mean_entropy": [_of_mean((layer,)) for layer in profile.entropy],
        "layer_mean_self_mass": [_of_mean((layer,)) for layer in profile.self_mass],
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "nearsight": nearsight.__version__,
        "convention": CONVENTION,
        "num_images": profile.num_images,
        "grid": [profile.grid.rows, profile.grid.cols],
        "num_prefix": profile.num_prefix,
        "num_layers": len(profile.mad),
        "num_heads": [layer.shape[1] for layer in profile.mad],
        "null": nulls,
        "layers": layers,
        "summary": summary,
    }
