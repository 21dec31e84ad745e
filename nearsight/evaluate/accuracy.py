"""Compute the accuracy and loss of a model on a split, without augmentation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor, nn

from nearsight.core import World
from nearsight.data.input import InputTransform
from nearsight.data.sets import Images

BATCH = 512
TOP = 5


class Scores(NamedTuple):
    """Accuracies as shares of images (0..1), and the mean cross-entropy in nats."""

    accuracy: float  # share of images whose largest logit is that of the right class
    loss: float
    top5_accuracy: float  # share of images whose right class is among the five largest logits
    correct: Bool[np.ndarray, " image"]  # for each image, in the order of ``indices``


@torch.no_grad()
def model_scores(
    model: nn.Module,
    images: Images,
    labels: Tensor,
    indices: Tensor,
    transform: InputTransform,
    world: World,
    precision: torch.dtype | None = None,
) -> Scores:
    """Return the accuracy and loss of a model on some images.

    Args:
        model: The model.
        images: All stored images, uint8 [n, 3, h, w].
        labels: Their classes.
        indices: The images to score. With several processes, each scores a part of them.
        transform: Prepares the images for the model.
        world: The processes that take part.
        precision: The type for autocast; None for full precision.
    """
    was_training = model.training
    model.eval()
    loss = near = 0.0
    correct: list[np.ndarray] = []
    share = indices[world.share(len(indices))]
    for rows in share.split(BATCH):
        batch = transform(torch.from_numpy(images[rows.numpy()]).to(world.device))
        with torch.autocast(world.device.type, precision, enabled=precision is not None):
            logits = model(batch)
        truth = labels[rows].to(world.device)
        wide = logits.to(transform.dtype)
        loss += F.cross_entropy(wide, truth, reduction="sum").item()
        correct.append((logits.argmax(-1) == truth).cpu().numpy())
        best = logits.topk(min(TOP, logits.shape[-1]), -1).indices
        near += (best == truth[:, None]).any(-1).sum().item()
    model.train(was_training)
    mine = np.concatenate(correct) if correct else np.zeros(0, bool)
    right = np.concatenate(world.gather(mine))
    loss, near = (total / len(indices) for total in world.total([loss, near]))
    return Scores(float(right.sum()) / len(indices), loss, near, right)
