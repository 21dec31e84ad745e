"""Define what an objective is: what a run learns, and the score that chooses its best epoch.

The loop, the step, checkpoints and logs are the same for every objective. To add one, write a
module with a subclass of ``Objective`` and a line in all_objectives.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, runtime_checkable
from typing import Protocol as Interface

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nearsight.core import World
from nearsight.data.input import InputTransform
from nearsight.data.sets import ImageSet
from nearsight.protocol import Protocol
from nearsight.train.batches import Samples, num_steps
from nearsight.train.state import Counters

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@runtime_checkable
class TrainingBatch(Interface):
    """One process's share of a global batch, of whatever kind the objective needs."""

    @property
    def global_size(self) -> int:
        """The number of samples of all processes."""


@dataclass(frozen=True)
class Setting:
    """The settings, the processes and the data that an objective works with."""

    protocol: Protocol
    seed: int
    world: World
    train: Samples
    validation: Tensor  # indices into the same images
    test: ImageSet
    classes: Sequence[str]
    transform: InputTransform

    @property
    def autocast(self) -> torch.dtype | None:
        """Return the type that torch casts to inside the model, or None without casting."""
        return AUTOCAST.get(self.protocol.precision)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps of an epoch."""
        return num_steps(len(self.train.indices), self.protocol.batch_size)


class StepLoss(NamedTuple):
    """The loss of a step, and how many samples were classified."""

    losses: Float[Tensor, " n"]  # of every sample of this process
    num_correct: float = 0.0  # samples of this process
    num_classified: int = 0  # samples of all processes; 0 if the objective does not classify


class Validation(NamedTuple):
    """The score of an epoch."""

    score: float | None  # higher is better; None: this epoch was not scored
    line: dict[str, Any]  # what to add to the epoch's line of train.jsonl
    words: str  # the score for the display of progress, such as "val 53.1%"
    check: float = 0.0  # a number that must be finite, such as the loss on the validation images
    warnings: tuple[str, ...] = ()


class FinalScores(NamedTuple):
    """The scores of the best weights of a run on the test images."""

    result: dict[str, Any]  # for run.json
    correct: Bool[np.ndarray, " image"]  # which test images were classified correctly


@dataclass
class Objective(ABC):
    """What a run learns: its batches, its loss, and the score that chooses the best epoch.

    Args:
        setting: The settings, the processes and the data.
        model: The protocol's model, on its device.
        spread: Compiles a module and distributes it over processes; returns the module to call.
    """

    setting: Setting
    model: nn.Module
    spread: Callable[[nn.Module], nn.Module]
    trained: nn.Module = field(init=False)  # the module whose parameters the optimizer changes
    called: nn.Module = field(init=False)  # the same module, compiled or distributed
    kept: nn.Module = field(init=False)  # the module whose weights the run keeps
    companion: nn.Module | None = field(init=False, default=None)  # changed by the objective itself
    any_size: ClassVar[bool] = False  # whether the model sees images of several sizes
    can_shard: ClassVar[bool] = True  # whether FSDP may shard what is trained

    def __post_init__(self) -> None:
        self.trained = self.kept = self.model
        self.called = self.spread(self.trained)

    @classmethod  # noqa: B027
    def check(cls, protocol: Protocol) -> None:
        """Check that the other settings of the protocol do not contradict the objective.

        Raises:
            UserError: If one does.
        """

    @property
    def watched(self) -> nn.Module:
        """Return the module whose attention is measured while the run trains."""
        return self.called

    @property
    def num_scored(self) -> float:
        """Return how many images go through the model to score an epoch, on average."""
        return float(len(self.setting.validation))

    @property
    def teacher_facts(self) -> dict[str, Any] | None:
        """Return what run.json records of a teacher that was trained before; None without one."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the person who starts the run."""
        return ()

    @abstractmethod
    def batches(self, epoch: int, first_step: int = 0) -> Iterator[TrainingBatch]:
        """Return this process's batches of an epoch, from ``first_step`` on."""

    @abstractmethod
    def losses(self, batch: Any, at: Counters) -> StepLoss:
        """Return the loss of every sample of a batch."""

    def before_update(self, at: Counters) -> None:  # noqa: B027
        """Change gradients before they are clipped."""

    def after_update(self, at: Counters) -> None:  # noqa: B027
        """Update what follows the model, such as a momentum teacher, after an optimizer step."""

    @abstractmethod
    def validate(self, at: Counters) -> Validation:
        """Score the weights on the validation images; every process must call this."""

    def look(self) -> dict[str, Any]:
        """Return numbers to log beside the attention when it is measured while training.

        Every process must call this.
        """
        return {}

    @abstractmethod
    def test(self, best: float) -> FinalScores:
        """Score the weights in ``kept`` on the test images, once, at the end.

        Every process must call this. ``best`` is the score of these weights on validation images.
        """
