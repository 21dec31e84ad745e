"""Cross-entropy against soft targets, and against a teacher's choice as well.

Smoothing and mixing are in the targets (data/mix.py).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
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


def distillation_loss(
    of_class: Float[Tensor, "n cls"],
    of_teacher: Float[Tensor, "n cls"],
    targets: Float[Tensor, "n cls"],
    choices: Int64[Tensor, " n"],
    share: float,
) -> Float[Tensor, " n"]:
    """(1 - share) CE(class head, targets) + share CE(distillation head, choices), per sample.

    ``of_class`` and ``of_teacher`` are the logits of the two heads. Share 0 is plain training of
    the class head; with share 1 it gets no gradient.

    >>> even, sure = torch.zeros(1, 4), torch.tensor([[50.0, 0.0, 0.0, 0.0]])
    >>> distillation_loss(even, sure, torch.eye(4)[:1], torch.tensor([0]), 0.5).exp().item()
    2.0
    """
    hard = F.one_hot(choices, of_teacher.shape[-1])
    learned = soft_cross_entropy(of_class, targets)
    followed = soft_cross_entropy(of_teacher, hard.to(targets.dtype))
    return (1 - share) * learned + share * followed
