"""AdamW with linear warm-up and cosine decay, and the optional moving average of the weights.

Weight decay acts on every parameter, as in ``torch.optim.AdamW(model.parameters())``, unless the
protocol says matrices: then, as in DeiT, biases, norms, gates, prefix tokens and positions are
spared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.protocol import Optimizer


def learning_rate(
    step: int,
    num_steps: int,
    warmup_steps: int,
    peak: float,
    start: float = 0.0,
    end: float = 0.0,
) -> float:
    """The rate of a step (from 0): linear from the start to the peak, half a cosine to the end.

    >>> [round(learning_rate(s, 6, 2, 1.0), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup_steps:
        return start + (peak - start) * (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return end + (peak - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def is_decayed(name: str, parameter: Tensor) -> bool:
    """Whether weight decay acts on a parameter when it acts on matrices only.

    >>> names = ("blocks.0.mlp.fc1.weight", "cls_token", "reg_token", "pos_embed")
    >>> [is_decayed(name, torch.zeros(1, 2, 3)) for name in names]
    [True, False, False, False]
    """
    last = name.rpartition(".")[2]
    return parameter.dim() > 1 and not last.endswith(("_token", "_tokens", "pos_embed"))


def parameter_groups(model: nn.Module, settings: Optimizer) -> list[dict[str, Any]]:
    """What is trained, with its weight decay; frozen parameters are in no group."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise UserError("expected parameters to train, but every one of this model is frozen")
    if settings.decayed == "all":
        return [{"params": list(trained.values()), "weight_decay": settings.weight_decay}]
    asked = getattr(model, "no_weight_decay", None)  # timm's models name some themselves
    spared = asked() if callable(asked) else set()
    sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for name, parameter in trained.items():
        sides[is_decayed(name, parameter) and name not in spared].append(parameter)
    decays = (0.0, settings.weight_decay)
    return [{"params": s, "weight_decay": d} for s, d in zip(sides, decays, strict=True) if s]


def adamw(model: nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        parameter_groups(model, settings),
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
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
        """Give the model the average inside the block and its own weights back after it."""
        own: dict[str, Tensor] = {}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                own[name] = parameter.detach().clone()
                parameter.copy_(self.weights[name])
            try:
                yield
            finally:
                for name, parameter in model.named_parameters():
                    parameter.copy_(own[name])
