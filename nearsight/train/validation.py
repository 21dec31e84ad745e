"""Accuracy and loss of a model over a split, without augmentation."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nearsight.data.transform import InputTransform
from nearsight.train.distributed import World

BATCH = 512


@torch.no_grad()
def accuracy_and_loss(
    model: nn.Module,
    images: np.ndarray,
    labels: Tensor,
    indices: Tensor,
    transform: InputTransform,
    world: World,
    precision: torch.dtype | None = None,
) -> tuple[float, float]:
    """Share of right answers (0..1) and mean cross-entropy in nats.

    ``images`` is the stored uint8 [n, 3, h, w]; every process takes its share of ``indices``.
    """
    was_training = model.training
    model.eval()
    correct, loss = 0.0, 0.0
    share = indices[world.share(len(indices))]
    for rows in share.split(BATCH):
        batch = transform(torch.from_numpy(images[rows.numpy()]).to(world.device))
        with torch.autocast(world.device.type, precision, enabled=precision is not None):
            logits = model(batch)
        truth = labels[rows].to(world.device)
        wide = logits.to(transform.dtype)
        loss += F.cross_entropy(wide, truth, reduction="sum").item()
        correct += (logits.argmax(-1) == truth).sum().item()
    model.train(was_training)
    correct, loss = world.total([correct, loss])
    return correct / len(indices), loss / len(indices)
