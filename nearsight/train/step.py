"""Take one step of training: forward pass, loss, backward pass, update and counters."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.data.draws import seeded_torch
from nearsight.protocol import protocol_rate, weight_decay
from nearsight.train.objectives import TrainingBatch
from nearsight.train.optim import clip_gradients
from nearsight.train.preparation import Prepared


@dataclass
class Stepper:
    """Take the steps of a run."""

    parts: Prepared
    out: Path  # the run folder, which errors name

    def __post_init__(self) -> None:
        setting = self.parts.setting
        self.protocol, self.world = setting.protocol, setting.world
        self.state, self.objective = self.parts.state, self.parts.objective
        self.steps_per_epoch = setting.steps_per_epoch
        self.num_steps = self.protocol.epochs * self.steps_per_epoch

    def take(self, batch: TrainingBatch) -> float:
        """Train on a batch and return its mean loss over all processes.

        Raises:
            UserError: If the loss is not finite.
        """
        at = self.state.counters
        self.set_rates()
        with self.casting(), self.seed_draws():
            found = self.objective.losses(batch, at)
        sums = [float(found.losses.detach().double().sum()), found.num_correct]
        loss_sum, correct = self.world.total(sums)
        self.check_finite("loss", loss_sum)
        # DDP and FSDP average over processes: undo that, then divide by the global batch
        self.update(found.losses.sum() * (self.world.size / batch.global_size))
        at.loss_sum += loss_sum
        at.num_correct += correct
        at.num_unmixed += found.num_classified
        at.step += 1
        at.total_steps += 1
        at.images_seen += batch.global_size
        return loss_sum / batch.global_size

    def set_rates(self) -> None:
        """Give the optimizer the learning rate and weight decay of the next step."""
        decay = weight_decay(self.protocol, self.state.counters.total_steps, self.steps_per_epoch)
        for group in self.state.optimizer.param_groups:
            group["lr"] = self.rate()
            if group["weight_decay"]:
                group["weight_decay"] = decay

    def rate(self) -> float:
        """Return the learning rate of the next step."""
        done = self.state.counters.total_steps
        return protocol_rate(self.protocol, done, self.steps_per_epoch)

    def casting(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the protocol's precision."""
        autocast = self.parts.setting.autocast
        return torch.autocast(self.world.device.type, autocast, enabled=autocast is not None)

    def seed_draws(self) -> AbstractContextManager[None]:
        """Make the random numbers of the model (drop path) depend on the step alone.

        A run that is stopped and resumed therefore draws the same ones.
        """
        at, world = self.state.counters, self.world
        key = ("model", self.parts.setting.seed, at.epoch, at.step, world.rank)
        return seeded_torch(*key, device=world.device)

    def check_finite(self, name: str, value: float) -> None:
        """Check that a loss is finite.

        Raises:
            UserError: If it is infinite or not a number.
        """
        if not math.isfinite(value):
            raise UserError(
                f"the {name} became {value} in epoch {self.state.counters.epoch} at learning rate "
                f"{self.rate():.3g}; start a new run with a lower optimizer.lr ({self.out} keeps "
                "the last good state)"
            )

    def update(self, loss: Tensor) -> None:
        """Compute the gradient of ``loss`` and take one optimizer step."""
        state, settings = self.state, self.protocol.optimizer
        state.optimizer.zero_grad(set_to_none=True)
        state.scaler.scale(loss).backward()
        self.objective.before_update(state.counters)
        if settings.clip_norm is not None:
            state.scaler.unscale_(state.optimizer)
            clip_gradients(state.model.parameters(), settings.clip_norm, settings.clipped)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        self.objective.after_update(state.counters)
        if state.average is not None:
            state.average.update(state.model, state.counters.total_steps)
