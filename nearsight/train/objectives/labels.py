"""Learn the labels by cross-entropy, with soft targets for mixed images and smoothed labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.data import draws
from nearsight.data.sets import Images
from nearsight.evaluate import Scores, model_scores
from nearsight.train.batches import Batch, epoch_batches
from nearsight.train.objectives.objective import FinalScores, Objective, StepLoss, Validation
from nearsight.train.state import Counters

IMAGE_SEED = 0  # chooses the images of the clean loss, the same for every epoch, protocol and seed
CLEAN_IMAGES = 2048  # training images for the clean loss


class Labels(Objective):
    """Learn the labels; the score is the accuracy on the validation images."""

    def batches(self, epoch: int, first_step: int = 0) -> Iterator[Batch]:
        """Return this process's batches of an epoch, from ``first_step`` on."""
        given = self.setting
        return epoch_batches(
            given.train, given.transform, protocol=given.protocol, seed=given.seed, epoch=epoch,
            first_step=first_step, world=given.world,
        )  # fmt: skip

    def losses(self, batch: Batch, at: Counters) -> StepLoss:
        """Return the cross-entropy of every sample."""
        logits = self.called(batch.images)
        return step_loss(soft_cross_entropy(logits, batch.targets), logits, batch)

    def scores(self, images: Images, labels: Tensor, indices: Tensor) -> Scores:
        """Return loss and accuracy on the images at ``indices``; every process must call this."""
        given = self.setting
        return model_scores(
            self.called, images, labels, indices, given.transform, given.world, given.autocast
        )

    def validate(self, at: Counters) -> Validation:
        """Return accuracy and loss on the validation images."""
        train = self.setting.train
        scores = self.scores(train.images, train.labels, self.setting.validation)
        line = {"validation_loss": scores.loss, "validation_accuracy": scores.accuracy}
        return Validation(scores.accuracy, line, f"val {scores.accuracy:.2%}", scores.loss)

    def look(self) -> dict[str, Any]:
        """Return the loss on some training images, without augmentation and with hard labels.

        Unlike the training loss it can be compared between protocols.
        """
        train = self.setting.train
        num = min(CLEAN_IMAGES, len(train.indices))
        rows = draws.sample("clean loss", IMAGE_SEED, length=len(train.indices), num=num)
        found = self.scores(train.images, train.labels, train.indices[rows])
        return {"clean_train_loss": found.loss}

    def test(self, best: float) -> FinalScores:
        """Return the accuracy on the test images."""
        test = self.setting.test
        labels = torch.from_numpy(test.labels.astype("int64"))
        scores = self.scores(test.images, labels, torch.arange(len(labels)))
        return FinalScores(
            {
                "validation_accuracy": best,
                "test_accuracy": scores.accuracy,
                "test_top5_accuracy": scores.top5_accuracy,
                "test_loss": scores.loss,
            },
            scores.correct,
        )


def step_loss(
    losses: Float[Tensor, " n"], logits: Float[Tensor, "n cls"], batch: Batch
) -> StepLoss:
    """Return the losses, with the number of correctly classified samples unless they are mixed.

    A mixed sample has no single class that could be correct.
    """
    if batch.mixed:
        return StepLoss(losses)
    return StepLoss(losses, float((logits.argmax(-1) == batch.labels).sum()), batch.global_size)


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
