"""Prepare a run before its first step: data, split, model, optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError, World, keep_freed_memory
from nearsight.data.input import InputTransform
from nearsight.data.sets import Images, ImageSet, load_dataset, train_and_validation
from nearsight.evaluate import Scores, model_scores
from nearsight.models.load import load_weights, model_for
from nearsight.models.parts import changes_in
from nearsight.protocol import Protocol
from nearsight.train.batches import Batch, Samples, epoch_batches
from nearsight.train.distill import Teacher, answer_with_both_heads, teacher_of
from nearsight.train.optim import MovingAverage, adamw
from nearsight.train.parallel import Parallel, parallelised
from nearsight.train.record import new_record
from nearsight.train.state import TrainingState

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to train: settings, processes, data, model and state."""

    protocol: Protocol
    seed: int
    world: World
    train: Samples
    validation: Tensor  # indices into the same images
    test: ImageSet
    transform: InputTransform
    teacher: Teacher | None
    called: nn.Module  # the model, perhaps compiled or spread over processes
    state: TrainingState
    record: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def autocast(self) -> torch.dtype | None:
        """Return the type that torch casts to inside the model, or None without casting."""
        return AUTOCAST.get(self.protocol.precision)

    def batches(self, epoch: int, first_step: int = 0) -> Iterator[Batch]:
        """Return this process's batches of an epoch, from ``first_step`` on."""
        return epoch_batches(
            self.train, self.transform, protocol=self.protocol, seed=self.seed, epoch=epoch,
            first_step=first_step, world=self.world,
        )  # fmt: skip

    def scores(self, images: Images, labels: Tensor, indices: Tensor) -> Scores:
        """Return loss and correct predictions on the images of ``indices`` (collective)."""
        return model_scores(
            self.called, images, labels, indices, self.transform, self.world, self.autocast
        )


def prepare(
    protocol: Protocol,
    seed: int,
    world: World,
    data_root: Path | None,
    compiled: bool,
    parallel: Parallel,
) -> Prepared:
    """Load and split the data and build the model; process 0 decodes the data first."""
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
            f"model.num_classes is {num_classes}, "
            f"but {dataset.name} has {len(dataset.classes)} classes"
        )
    height, width = dataset.train.images.shape[2:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, image_size = model_for(protocol.model, num_classes, (height, width))
    notes = [*dataset.notes, *changes_in(model)]
    if protocol.model.weights:
        notes += load_weights(model, Path(protocol.model.weights), to_train=True)
    dtype = torch.float64 if protocol.precision == "float64" else torch.float32
    transform = InputTransform(dataset.mean, dataset.std, image_size, dtype)
    teacher = None
    if protocol.distillation:
        if protocol.distillation.kind == "hard" or getattr(model, "head_dist", None) is not None:
            answer_with_both_heads(model, protocol.model.name)
        given = (transform, num_classes, dataset.classes, world.device)
        teacher = teacher_of(protocol.distillation, *given)
        notes.append(teacher.note())
    record = new_record(
        protocol,
        seed,
        dataset,
        (len(train), len(validation)),
        model,
        num_classes,
        image_size,
        world,
        teacher.facts if teacher else None,
    )
    keep_freed_memory()
    model = model.to(world.device, dtype).train()
    called = parallelised(model, world, parallel, compiled)
    state = TrainingState(
        model=model,
        optimizer=adamw(model, protocol.optimizer),
        average=MovingAverage(model, protocol.ema_decay) if protocol.ema_decay else None,
        scaler=torch.amp.GradScaler(world.device.type, enabled=protocol.precision == "fp16"),
    )
    labels = torch.from_numpy(dataset.train.labels.astype("int64"))
    return Prepared(
        protocol=protocol,
        seed=seed,
        world=world,
        train=Samples(dataset.train.images, labels, torch.from_numpy(train), num_classes),
        validation=torch.from_numpy(validation),
        test=dataset.test,
        transform=transform,
        teacher=teacher,
        called=called,
        state=state,
        record=record,
        notes=tuple(notes),
    )
