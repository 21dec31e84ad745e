"""When locality appears: attention measured while a run trains, on a few validation images.

The same measurement as ``nearsight measure`` makes at the end (never on test images), before the
first step (epoch 0) and every ``measure_every`` epochs, into train.jsonl. It draws no random
numbers and changes no weight: the run ends with the same bytes with and without it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from nearsight.data import draws
from nearsight.measure.estimates import Estimates
from nearsight.measure.profile import Profile, measure_model
from nearsight.measure.summary import layer_means
from nearsight.protocol.schema import Protocol
from nearsight.train.preparation import Prepared

METRICS = ("mad", "entropy", "self_mass")
NONLOCALITY = "nonlocality"
BATCH = 64
IMAGE_SEED = 0  # which validation images: the same for every epoch, protocol and seed


def attention_seen(
    protocol: Protocol, epoch: int, parts: Prepared, precision: torch.dtype | None = None
) -> dict[str, Any]:
    """What an epoch's line of train.jsonl says of attention: nothing if it is not looked at.

    Mean and 95 % interval over images of every metric, [layer][head], and of the nonlocality of
    every layer; of layers with GPSA also gates, centres and spans. Epoch 0 is before the first
    step. Every process measures the same images.
    """
    if protocol.measure_every is None or epoch % protocol.measure_every:
        return {}
    validation, device = parts.validation, next(parts.called.parameters()).device
    key, num = ("measured while training", IMAGE_SEED), protocol.measure_images
    chosen = validation[draws.sample(*key, length=len(validation), num=num)]
    batches = (
        parts.transform(torch.from_numpy(parts.train.images[rows.numpy()]).to(device))
        for rows in chosen.split(BATCH)
    )
    with torch.autocast(device.type, precision, enabled=precision is not None):
        profile = measure_model(parts.called, batches, metrics=(*METRICS, NONLOCALITY))
    return {"attention": {"num_images": profile.num_images, **_numbers(profile)}}


def _numbers(profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = {name: _intervals(profile.metrics[name]) for name in METRICS}
    found[f"layer_mean_{NONLOCALITY}"] = layer_means(profile.metrics[NONLOCALITY])
    if profile.gates:
        found["gpsa"] = [
            asdict(profile.gates[layer]) if layer in profile.gates else None
            for layer in range(len(profile.layers))
        ]
    return found


def _intervals(estimates: Estimates) -> dict[str, list[list[float]]]:
    return {
        part: [layer.tolist() for layer in getattr(estimates, part)]
        for part in ("mean", "low", "high")
    }
