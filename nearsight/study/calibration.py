"""How long an epoch takes here: a few steps and a piece of the validation set, timed."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from nearsight.protocol.schema import Protocol
from nearsight.study.plan import THREADS
from nearsight.train.batches import epoch_batches
from nearsight.train.distributed import World
from nearsight.train.preparation import prepare
from nearsight.train.step import Stepper
from nearsight.train.validation import BATCH, model_scores

SECONDS = 2.0  # of steps, after the first one


def epoch_seconds(protocol: Protocol, device: str, data_root: Path | None = None) -> float:
    """Seconds of one epoch, training and validation, with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return _timed(protocol, World(torch.device(device)), data_root)
    finally:
        torch.set_num_threads(before)


def _timed(protocol: Protocol, world: World, data_root: Path | None) -> float:
    parts = prepare(protocol, 0, world, data_root, compiled=False, parallel="ddp")
    stepper = Stepper(protocol, 0, world, parts, Path())
    batches = epoch_batches(
        parts.train, parts.transform, protocol=protocol, seed=0, epoch=1, first_step=0, world=world
    )
    began, images = time.perf_counter(), 0
    for number, batch in enumerate(batches):
        stepper.take(batch)
        if number == 0:  # memory and caches are warm from here on
            began, images = time.perf_counter(), 0
            continue
        images += batch.global_size
        if time.perf_counter() - began > SECONDS:
            break
    per_image = (time.perf_counter() - began) / max(1, images)
    some = parts.validation[:BATCH]
    began = time.perf_counter()
    model_scores(parts.called, parts.train.images, parts.train.labels, some, parts.transform, world)
    validating = (time.perf_counter() - began) / len(some)
    return per_image * len(parts.train.indices) + validating * len(parts.validation)
