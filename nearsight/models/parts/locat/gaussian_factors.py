"""The factors of a Gaussian bias by compiled code, for models that are used on a CPU.

torch needs some thirty small operations for them, which cost a layer of ViT-Ti 5 % of its time;
``factors.c`` takes a fifth of that. It serves variance and strength from the query, without
gradients, in float32; ``gaussian.py`` has the formulas and serves the rest.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_int64, c_void_p

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from nearsight.models.layers import SeparableBias
from nearsight.native import LANES, load_library


class _Queries(ctypes.Structure):
    _fields_ = (
        ("start", c_void_p),
        *((name, c_int64) for name in ("image", "head", "patch")),
        *((name, c_int64) for name in ("images", "heads", "patches", "width")),
    )


class _Settings(ctypes.Structure):
    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("axes", c_int64),
        *((name, c_float) for name in ("largest", "shift", "growth", "eps")),
        ("by_row", c_void_p),
        ("by_col", c_void_p),
        ("rows", c_int64),
        ("cols", c_int64),
    )


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
    images, heads, patches, _ = queries.shape
    sizes = [len(squares) for squares in offsets]
    by_row, by_col = (F.pad(x.float(), (0, -len(x) % LANES)) for x in offsets)
    weight = torch.cat([log_var.weight, log_alpha.weight])
    bias = torch.cat([log_var.bias, log_alpha.bias])
    made = [queries.new_empty(images, heads, patches, size) for size in sizes]
    settings = _Settings(
        *(weight.data_ptr(), bias.data_ptr(), len(log_var.weight)),
        *(largest, shift, growth, eps),
        *(by_row.data_ptr(), by_col.data_ptr(), *sizes),
    )
    compiled.gaussian_factors(
        ctypes.byref(_Queries(queries.data_ptr(), *queries.stride()[:3], *queries.shape)),
        ctypes.byref(settings),
        *(c_void_p(x.data_ptr()) for x in made),
        c_int(torch.get_num_threads()),
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
