"""Prepare a run before its first step: the data, its split, the model and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nearsight.core import UserError, World, keep_freed_memory
from nearsight.data.input import InputTransform
from nearsight.data.sets import load_dataset, train_and_validation
from nearsight.models.load import load_weights, model_for
from nearsight.models.parts import changes_in
from nearsight.protocol import Protocol
from nearsight.train.batches import Samples
from nearsight.train.objectives import Objective, Setting, TrainingBatch, objective_of
from nearsight.train.optim import MovingAverage, adamw
from nearsight.train.parallel import Parallel, parallelise
from nearsight.train.record import new_record
from nearsight.train.state import TrainingState


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to train."""

    setting: Setting
    objective: Objective
    state: TrainingState
    record: dict[str, Any]
    notes: tuple[str, ...]

    def batches(self, epoch: int, first_step: int = 0) -> Iterator[TrainingBatch]:
        """Return this process's batches of an epoch, from ``first_step`` on."""
        return self.objective.batches(epoch, first_step)


def prepare(
    protocol: Protocol,
    seed: int,
    world: World,
    data_root: Path | None,
    compiled: bool,
    parallel: Parallel,
) -> Prepared:
    """Load and split the data, and build the model and the optimizer.

    With several processes, process 0 decodes the data while the others wait.

    Args:
        protocol: The settings.
        seed: The seed of the run.
        world: The processes of the run.
        data_root: The folder of data sets; None for the default folder.
        compiled: Whether to compile the model with ``torch.compile``.
        parallel: How several processes share the model.

    Raises:
        UserError: If the data, the model, the weights and the settings do not fit together.
    """
    kind = objective_of(protocol)
    if world.size > 1 and parallel == "fsdp" and not kind.can_shard:
        raise UserError(
            f"{protocol.name} cannot be sharded over processes, because its teacher is an average "
            "of whole weights; use --parallel ddp"
        )
    if not world.is_main:
        world.wait()
    dataset = load_dataset(protocol.data, data_root)
    if world.is_main:
        world.wait()
    settings = protocol.data
    train, validation = train_and_validation(
        dataset.train.labels,
        settings.fraction,
        settings.validation_fraction,
        settings.split_seed,
    )
    num_classes = protocol.model.num_classes or len(dataset.classes)
    if num_classes < len(dataset.classes):
        raise UserError(
            f"model.num_classes is {num_classes}, but {dataset.name} has {len(dataset.classes)} "
            "classes; leave it out, or set at least that many"
        )
    height, width = dataset.train.images.shape[2:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        size = (height, width)
        model, image_size = model_for(protocol.model, num_classes, size, kind.any_size)
    notes = [*dataset.notes, *changes_in(model)]
    if protocol.model.weights:
        notes += load_weights(model, Path(protocol.model.weights), to_train=True)
    dtype = torch.float64 if protocol.precision == "float64" else torch.float32
    transform = InputTransform(dataset.mean, dataset.std, image_size, dtype)
    labels = torch.from_numpy(dataset.train.labels.astype("int64"))
    setting = Setting(
        protocol=protocol,
        seed=seed,
        world=world,
        train=Samples(dataset.train.images, labels, torch.from_numpy(train), num_classes),
        validation=torch.from_numpy(validation),
        test=dataset.test,
        classes=dataset.classes,
        transform=transform,
    )
    keep_freed_memory()
    spread = partial(parallelise, world=world, parallel=parallel, compiled=compiled)
    objective = kind(setting, model.to(world.device, dtype).train(), spread)
    trained = objective.trained
    record = new_record(
        protocol,
        seed,
        dataset,
        (len(train), len(validation)),
        model,
        num_classes,
        image_size,
        world,
        objective.teacher_facts,
    )
    state = TrainingState(
        model=trained,
        optimizer=adamw(trained, protocol.optimizer),
        average=MovingAverage(trained, protocol.ema_decay) if protocol.ema_decay else None,
        scaler=torch.amp.GradScaler(world.device.type, enabled=protocol.precision == "fp16"),
        kept=objective.kept,
        companion=objective.companion,
    )
    return Prepared(setting, objective, state, record, (*notes, *objective.notes))
