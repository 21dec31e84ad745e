"""AdamW with linear warm-up and cosine decay, and the optional moving average of the weights.

Weight decay acts on every parameter, as in ``torch.optim.AdamW(model.parameters())``; the paper
does not say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from nearsight.protocol.schema import Optimizer


def learning_rate(step: int, num_steps: int, warmup_steps: int, peak: float) -> float:
    """The rate of a step (from 0): linear up to the peak, then half a cosine down to zero.

    >>> [round(learning_rate(s, 6, 2, 1.0), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def adamw(model: nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        model.parameters(),
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


class MovingAverage:
    """Exponential moving average of the weights, with the usual short memory at the start."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - decay)

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """The model holds the average inside the block and its own weights after it."""
        own: dict[str, Tensor] = {}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                own[name] = parameter.detach().clone()
                parameter.copy_(self.weights[name])
            yield
            for name, parameter in model.named_parameters():
                parameter.copy_(own[name])
