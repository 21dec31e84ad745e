"""The factors of a Gaussian bias by compiled code, for models that are used on a CPU.

torch needs some thirty small operations for them, which cost a layer of ViT-Ti 5 % of its time;
``factors.c`` takes a fifth of that. It serves variance and strength from the query, without
gradients, in float32; ``gaussian.py`` has the formulas and serves the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from nearsight.models.layers import SeparableBias
from nearsight.native import load_library


def compiled_factors(
    queries: Tensor,
    log_var: nn.Linear,
    log_alpha: nn.Linear,
    offsets: tuple[Tensor, Tensor],
    largest: float,
    shift: float,
    growth: float,
    eps: float,
) -> SeparableBias | None:
    """Rows (times strength) and columns of every patch, or None where torch has to do it."""
    compiled = load_library() if _serves(queries, log_var.weight, log_alpha.weight) else None
    if compiled is None:
        return None
    weight = torch.cat([log_var.weight, log_alpha.weight])
    bias = torch.cat([log_var.bias, log_alpha.bias])
    made = compiled.gaussian_factors(
        queries, weight, bias, offsets, largest=largest, shift=shift, growth=growth, eps=eps
    )
    return SeparableBias(*made)


def _serves(queries: Tensor, *weights: Tensor) -> bool:
    """Real numbers in float32 on the CPU; nobody traces, differentiates or counts what is done."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if is_in_torch_dispatch_mode() or type(queries) is not Tensor or queries.stride(-1) != 1:
        return False
    given = (queries, *weights)
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        return False
    return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in given)
