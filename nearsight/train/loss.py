"""Cross-entropy against soft targets; smoothing and mixing are in the targets (data/mix.py)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def soft_cross_entropy(
    logits: Float[Tensor, "n cls"], targets: Float[Tensor, "n cls"]
) -> Float[Tensor, " n"]:
    """-sum_c target_c log softmax(logits)_c of every sample, in nats, at least in float32.

    0 when the softmax puts all mass on a one-hot target; log(classes) for uniform logits.

    >>> soft_cross_entropy(torch.zeros(1, 4), torch.eye(4)[:1]).exp().item()
    4.0
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return -(targets.to(wide.dtype) * wide.log_softmax(-1)).sum(-1)
