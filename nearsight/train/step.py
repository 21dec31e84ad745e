"""One step of training: forward, loss, backward, update, and the counters."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.core import UserError
from nearsight.data.draws import seeded_torch
from nearsight.protocol import protocol_rate
from nearsight.train.batches import Batch, num_steps
from nearsight.train.preparation import Prepared


@dataclass
class Stepper:
    """The steps of a run; errors about a loss that is not finite name the folder ``out``."""

    parts: Prepared
    out: Path

    def __post_init__(self) -> None:
        self.protocol, self.world = self.parts.protocol, self.parts.world
        self.state = self.parts.state
        self.steps_per_epoch = num_steps(len(self.parts.train.indices), self.protocol.batch_size)
        self.num_steps = self.protocol.epochs * self.steps_per_epoch

    def take(self, batch: Batch) -> float:
        """Run forward, backward and update; return the mean loss over the global batch."""
        rate, at = self.rate(), self.state.counters
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate
        with self.casting(), self.seeded():
            losses, logits = self.losses(batch)
        correct = 0.0 if batch.mixed else float((logits.argmax(-1) == batch.labels).sum())
        loss_sum, correct = self.world.total([float(losses.detach().double().sum()), correct])
        self.check_finite("loss", loss_sum)
        # DDP and FSDP average over processes: undo that, then divide by the global batch
        self.update(losses.sum() * (self.world.size / batch.global_size))
        at.loss_sum += loss_sum
        at.num_correct += correct
        at.num_unmixed += 0 if batch.mixed else batch.global_size
        at.step += 1
        at.total_steps += 1
        at.images_seen += batch.global_size
        return loss_sum / batch.global_size

    def losses(self, batch: Batch) -> tuple[Float[Tensor, " n"], Float[Tensor, "n cls"]]:
        """Return the loss of every sample, and the logits (with two heads, their mean)."""
        teacher, settings = self.parts.teacher, self.protocol.distillation
        if teacher is None or settings is None:
            logits = self.parts.called(batch.images)
            return soft_cross_entropy(logits, batch.targets), logits
        taught = teacher.logits(batch.images)
        answer = self.parts.called(batch.images)
        of_class, of_teacher = (answer, answer) if isinstance(answer, Tensor) else answer
        if settings.kind == "soft":
            learned = soft_cross_entropy(of_class, batch.targets)
            followed = soft_distillation(of_teacher, taught, settings.temperature)
            found = (1 - settings.share) * learned + settings.share * followed
        else:
            choices = taught.argmax(-1)
            found = distillation_loss(of_class, of_teacher, batch.targets, choices, settings.share)
        return found, of_class if isinstance(answer, Tensor) else (of_class + of_teacher) / 2

    def rate(self) -> float:
        """Return the learning rate of the next step."""
        done = self.state.counters.total_steps
        return protocol_rate(self.protocol, done, self.steps_per_epoch)

    def casting(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the protocol's precision."""
        autocast = self.parts.autocast
        return torch.autocast(self.world.device.type, autocast, enabled=autocast is not None)

    def seeded(self) -> AbstractContextManager[None]:
        """Make the model's own draws (drop path) a function of the step, for exact resumes."""
        at, world = self.state.counters, self.world
        key = ("model", self.parts.seed, at.epoch, at.step, world.rank)
        return seeded_torch(*key, device=world.device)

    def check_finite(self, name: str, value: float) -> None:
        """Raise UserError if a loss is infinite or not a number."""
        if not math.isfinite(value):
            raise UserError(
                f"the {name} became {value} in epoch {self.state.counters.epoch} at learning rate "
                f"{self.rate():.3g}; {self.out} keeps the last good state"
            )

    def update(self, loss: Tensor) -> None:
        """Take one optimizer step down the gradient of ``loss``."""
        state, clip = self.state, self.protocol.optimizer.clip_norm
        state.optimizer.zero_grad(set_to_none=True)
        state.scaler.scale(loss).backward()
        if clip is not None:
            state.scaler.unscale_(state.optimizer)
            torch.nn.utils.clip_grad_norm_(state.model.parameters(), clip)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        if state.average is not None:
            state.average.update(state.model, state.counters.total_steps)


def soft_cross_entropy(
    logits: Float[Tensor, "n cls"], targets: Float[Tensor, "n cls"]
) -> Float[Tensor, " n"]:
    """Return -sum_c target_c log softmax(logits)_c of every sample in nats, at least in float32.

    It is 0 if the softmax equals a one-hot target, and log(classes) for uniform logits.

    >>> soft_cross_entropy(torch.zeros(1, 4), torch.eye(4)[:1]).exp().item()
    4.0
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return -(targets.to(wide.dtype) * wide.log_softmax(-1)).sum(-1)


def soft_distillation(
    logits: Float[Tensor, "n cls"], taught: Float[Tensor, "n cls"], temperature: float
) -> Float[Tensor, " n"]:
    """Return T^2 KL(softmax(taught / T) || softmax(logits / T)) of every sample, in nats.

    It is 0 if the two agree, and unbounded if the student gives no probability to what the teacher
    chooses.

    >>> even, sure = torch.zeros(1, 4), torch.tensor([[50.0, 0.0, 0.0, 0.0]])
    >>> soft_distillation(even, sure, 1.0).exp().item()
    4.0
    >>> soft_distillation(sure, sure, 3.0).item()
    0.0
    """
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    ours, theirs = ((x.to(kind) / temperature).log_softmax(-1) for x in (logits, taught))
    return temperature**2 * (theirs.exp() * (theirs - ours)).sum(-1)


def distillation_loss(
    of_class: Float[Tensor, "n cls"],
    of_teacher: Float[Tensor, "n cls"],
    targets: Float[Tensor, "n cls"],
    choices: Int64[Tensor, " n"],
    share: float,
) -> Float[Tensor, " n"]:
    """Return (1 - share) CE(class head, targets) + share CE(distillation head, choices) per sample.

    ``of_class`` and ``of_teacher`` are the logits of the two heads. With share 0, only the class
    head is trained; with share 1, it gets no gradient.

    >>> even, sure = torch.zeros(1, 4), torch.tensor([[50.0, 0.0, 0.0, 0.0]])
    >>> distillation_loss(even, sure, torch.eye(4)[:1], torch.tensor([0]), 0.5).exp().item()
    2.0
    """
    hard = F.one_hot(choices, of_teacher.shape[-1])
    learned = soft_cross_entropy(of_class, targets)
    followed = soft_cross_entropy(of_teacher, hard.to(targets.dtype))
    return (1 - share) * learned + share * followed
