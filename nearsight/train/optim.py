"""Define the optimizer (AdamW), the clipping of gradients, and the moving average of the weights.

By default weight decay applies to every parameter, as in ``torch.optim.AdamW(model.parameters())``.
With ``optimizer.decayed=matrices`` it does not apply to biases, norms, gates, prefix tokens and
positions, as in DeiT. With ``optimizer.decayed=not-vectors`` it does not apply to biases, norms and
gates, as in DINO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.protocol import Optimizer


def is_decayed(name: str, parameter: Tensor, tokens: bool = False) -> bool:
    """Tell whether a parameter gets weight decay when only some parameters do.

    Args:
        name: The name of the parameter.
        parameter: The parameter.
        tokens: Whether prefix tokens and positions get it too.

    >>> names = ("blocks.0.mlp.fc1.weight", "cls_token", "reg_token", "pos_embed")
    >>> [is_decayed(name, torch.zeros(1, 2, 3)) for name in names]
    [True, False, False, False]
    """
    is_token = name.rpartition(".")[2].endswith(("_token", "_tokens", "pos_embed"))
    return parameter.dim() > 1 and (tokens or not is_token)


def parameter_groups(model: nn.Module, settings: Optimizer) -> list[dict[str, Any]]:
    """Return the trainable parameters in groups, each with its weight decay.

    Raises:
        UserError: If the model has no trainable parameter.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise UserError(
            "the model has no parameters to train, because all of them are frozen; set "
            "requires_grad on those to train"
        )
    if settings.decayed == "all":
        return [{"params": list(trained.values()), "weight_decay": settings.weight_decay}]
    tokens = settings.decayed == "not-vectors"
    asked = getattr(model, "no_weight_decay", None)  # models of timm name parameters without decay
    spared = asked() if callable(asked) and not tokens else set()
    sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for name, parameter in trained.items():
        sides[is_decayed(name, parameter, tokens) and name not in spared].append(parameter)
    decays = (0.0, settings.weight_decay)
    return [{"params": s, "weight_decay": d} for s, d in zip(sides, decays, strict=True) if s]


def adamw(model: nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    """Return the optimizer of a model."""
    return torch.optim.AdamW(
        parameter_groups(model, settings),
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        fused=True,
    )


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], norm: float, clipped: str) -> None:
    """Shorten gradients that are longer than ``norm``.

    Args:
        parameters: The parameters with their gradients.
        norm: The largest length.
        clipped: ``all`` limits the length of all gradients together; otherwise the gradient of each
            parameter is limited by itself, as in DINO.
    """
    if clipped == "all":
        torch.nn.utils.clip_grad_norm_(parameters, norm)
        return
    for parameter in parameters:
        if parameter.grad is not None:
            torch.nn.utils.clip_grad_norm_(parameter, norm)


class MovingAverage:
    """An exponential moving average of the weights, which forgets faster at the start."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move the average towards the model's weights after a step."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - decay)

    @contextmanager
    def swap_in(self, model: nn.Module) -> Iterator[None]:
        """Put the average into the model inside the block, and restore its weights afterwards."""
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
