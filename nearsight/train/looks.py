"""Measure attention while a run trains, on a few validation images, to see when locality appears.

A look is the same measurement as that of ``nearsight measure``, but never on test images. It is
made before the first step (epoch 0) and every ``measure_every`` epochs, and written to train.jsonl.
It uses no random state and changes no weight, so that a run ends with the same weights with looks
and without.
"""

from __future__ import annotations

from typing import Any

import torch

from nearsight.data import draws
from nearsight.measure.catalogue import shown_in
from nearsight.measure.folders import layer_means
from nearsight.measure.metrics import Estimates
from nearsight.measure.profile import Profile, measure_model
from nearsight.measure.readouts import training_contents
from nearsight.train.preparation import Prepared

NONLOCALITY = "nonlocality"
BATCH = 64
IMAGE_SEED = 0  # chooses the images, which are the same for every epoch, protocol and seed


def look(parts: Prepared, epoch: int) -> dict[str, Any]:
    """Measure a model while it trains, and return what to add to the epoch's line of train.jsonl.

    The result is empty unless the protocol asks for a measurement at this epoch (0: before the
    first step). Its entry ``attention`` has the layers that an output reads, the mean and 95 %
    interval over images of every metric as [layer][head], the nonlocality of every layer, and the
    numbers that the model's parts have learned. The objective may add numbers that do not depend on
    augmentation, such as ``clean_train_loss``, by which runs with different augmentation can be
    compared.
    """
    every = parts.setting.protocol.measure_every
    if every is None or epoch % every:
        return {}
    return {"attention": _attention(parts), **parts.objective.look()}


def _attention(parts: Prepared) -> dict[str, Any]:
    """Measure the same validation images in every process."""
    setting, model = parts.setting, parts.objective.watched
    validation, device = setting.validation, next(model.parameters()).device
    key, num = ("measured while training", IMAGE_SEED), setting.protocol.measure_images
    chosen = validation[draws.sample(*key, length=len(validation), num=num)]
    batches = (
        setting.transform(torch.from_numpy(setting.train.images[rows.numpy()]).to(device))
        for rows in chosen.split(BATCH)
    )
    autocast = setting.autocast
    with torch.autocast(device.type, autocast, enabled=autocast is not None):
        profile = measure_model(model, batches, metrics=(*_looked_at(), NONLOCALITY))
    read = [layer + 1 for layer in profile.read_layers]
    return {"num_images": profile.num_images, "read_layers": read, **_numbers(profile)}


def _looked_at() -> list[str]:
    """Return the names of the metrics that are measured per head."""
    return [x.name for x in shown_in("training")]


def _numbers(profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = {name: _intervals(profile.metrics[name]) for name in _looked_at()}
    found[f"layer_mean_{NONLOCALITY}"] = layer_means(profile.metrics[NONLOCALITY])
    return found | training_contents(profile.readouts, len(profile.layers))


def _intervals(estimates: Estimates) -> dict[str, list[list[float]]]:
    return {
        part: [layer.tolist() for layer in getattr(estimates, part)]
        for part in ("mean", "low", "high")
    }
