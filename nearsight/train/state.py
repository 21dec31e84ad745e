"""Hold everything that a run needs to continue: weights, optimizer, best weights, counters, log."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.models.load import distinct_weights
from nearsight.train.optim import MovingAverage
from nearsight.train.parallel import copy_into, gather_whole


@dataclass
class Counters:
    """How far a run has come."""

    epoch: int = 1  # the current epoch, counted from 1
    step: int = 0  # steps of the current epoch that are done
    total_steps: int = 0  # steps of all epochs that are done
    images_seen: int = 0
    loss_sum: float = 0.0  # over the samples of the current epoch so far
    num_correct: float = 0.0  # among the unmixed samples of the current epoch
    num_unmixed: float = 0.0
    epoch_seconds: float = 0.0
    best_epoch: int = 0  # 0: none yet
    best_accuracy: float = -1.0  # the score of the best epoch
    log: list[dict[str, Any]] = field(default_factory=list)
    timing: list[dict[str, Any]] = field(default_factory=list)

    def begin_epoch(self) -> None:
        """Move on to the next epoch and reset its sums."""
        self.epoch, self.step = self.epoch + 1, 0
        self.loss_sum = self.num_correct = self.num_unmixed = self.epoch_seconds = 0.0


@dataclass
class TrainingState:
    """The tensors and counters of a run, saved and restored together.

    Args:
        model: The module whose parameters the optimizer changes.
        optimizer: The optimizer.
        average: The moving average of the weights, if there is one.
        scaler: Scales the loss in half precision.
        kept: The model whose weights the run writes at the end: ``model`` or a part of it, or of
            the companion.
        companion: A module that the objective changes by itself, such as a momentum teacher.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: MovingAverage | None
    scaler: torch.amp.GradScaler
    kept: nn.Module
    companion: nn.Module | None = None
    counters: Counters = field(default_factory=Counters)
    best: dict[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by name, whole and on the CPU.

        If the model is sharded, every process must call this.
        """
        found = {
            f"model.{name}": gather_whole(t) for name, t in distinct_weights(self.model).items()
        }
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                found[f"optimizer.{key}.{name}"] = gather_whole(value)
        if self.average is not None:
            found |= {
                f"average.{name}": gather_whole(t) for name, t in self.average.weights.items()
            }
        if self.companion is not None:
            weights = distinct_weights(self.companion)
            found |= {f"companion.{name}": gather_whole(t) for name, t in weights.items()}
        return found | {f"best.{name}": t for name, t in self.best.items()}

    def facts(self) -> dict[str, Any]:
        """Return the part of the state that is not tensors."""
        return {"counters": asdict(self.counters), "scaler": self.scaler.state_dict()}

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Restore the tensors and counters of a checkpoint."""
        for name, target in distinct_weights(self.model).items():
            copy_into(target, tensors[f"model.{name}"])
        for name, parameter in self.model.named_parameters():
            if f"optimizer.step.{name}" not in tensors:  # frozen, hence never updated
                continue
            self.optimizer.state[parameter] = {
                "step": tensors[f"optimizer.step.{name}"].to(parameter.device),
                **{
                    key: _like(parameter, tensors[f"optimizer.{key}.{name}"])
                    for key in ("exp_avg", "exp_avg_sq")
                },
            }
        if self.average is not None:
            for name, target in self.average.weights.items():
                copy_into(target, tensors[f"average.{name}"])
        if self.companion is not None:
            for name, target in distinct_weights(self.companion).items():
                copy_into(target, tensors[f"companion.{name}"])
        prefix = "best."
        self.best = {k[len(prefix) :]: t for k, t in tensors.items() if k.startswith(prefix)}
        self.scaler.load_state_dict(facts["scaler"])
        self.counters = Counters(**facts["counters"])

    def keep_as_best(self) -> None:
        """Keep a copy of the weights as the best so far.

        If the model is sharded, every process must call this.
        """
        self.best = {name: gather_whole(t) for name, t in distinct_weights(self.kept).items()}

    def return_to_best(self) -> None:
        """Load the best weights into the model whose weights the run writes."""
        for name, target in distinct_weights(self.kept).items():
            copy_into(target, self.best[name])


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    target = torch.empty_like(parameter.detach())
    copy_into(target, value)
    return target
