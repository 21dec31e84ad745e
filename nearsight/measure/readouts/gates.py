"""What GPSA learned: gate, attention centre and span of every head.

Figure 6 of ConViT (d'Ascoli et al. 2021). A head of GPSA weighs its positional
attention by the gate sigmoid(lambda) and its content by the rest. The positional score of an offset
d = (down, right) is w . (right, down, |d|^2), with w the head's row of ``pos_proj``. For w[2] < 0
that is -|d - centre|^2 / span up to a constant:

    span = -1 / w[2],   centre = (w[1], w[0]) * span / 2

Unlike the authors' log, a head with w[2] >= 0, whose scores grow with the distance, has neither:
the formula would call the place that it looks at least its centre. Parameters are read by name, so
that timm's layer is read like ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall, inner_model


@dataclass(frozen=True)
class LayerGates:
    """A layer with GPSA; all are per head."""

    gate: tuple[float, ...] | None  # share of the positional attention; None: no gates (PSA)
    centre: tuple[tuple[float, float] | None, ...]  # (down, right) in patches
    span: tuple[float | None, ...]  # square patches; the weight falls by e at its root


def is_gpsa(module: nn.Module) -> bool:
    return all(hasattr(module, name) for name in ("gating_param", "pos_proj"))


def layer_gates(module: Any) -> LayerGates:
    """Gate, centre and span of every head of a GPSA layer.

    >>> layer = nn.Module()
    >>> layer.gating_param = nn.Parameter(torch.zeros(1))
    >>> layer.pos_proj = nn.Linear(3, 1)
    >>> layer.pos_proj.weight = nn.Parameter(torch.tensor([[1.0, -2.0, -0.5]]))
    >>> layer_gates(layer)
    LayerGates(gate=(0.5,), centre=((-2.0, 1.0),), span=(2.0,))
    """
    with torch.no_grad():
        gates = module.gates() if hasattr(module, "gates") else module.gating_param.sigmoid()
        right, down, far = module.pos_proj.weight.double().unbind(1)
    spans = [-1 / x if x < 0 else None for x in far.tolist()]
    places = zip(down.tolist(), right.tolist(), spans)
    return LayerGates(
        None if gates is None else tuple(gates.double().tolist()),
        tuple(None if span is None else (y * span / 2, x * span / 2) for y, x, span in places),
        tuple(spans),
    )


def gates_of(call: AttentionCall) -> LayerGates | None:
    """Of the layer that makes this call, if it is GPSA."""
    for place in reversed(call.path):
        if is_gpsa(place.module):
            return layer_gates(place.module)
    return None


def gpsa_gates(model: nn.Module) -> dict[str, LayerGates]:
    """Gates, centres and spans of every layer with GPSA, by the layer's name. No image is needed.

    >>> from nearsight.models.load.registry import create_model
    >>> found = gpsa_gates(create_model("timm/convit_tiny"))
    >>> len(found), found["blocks.0.attn"].centre[1], round(found["blocks.0.attn"].gate[1], 3)
    (10, (0.5, -0.5), 0.731)
    """
    inner = inner_model(model)
    found = {name: layer_gates(x) for name, x in inner.named_modules() if is_gpsa(x)}
    if not found:
        raise UserError(
            f"expected a model with GPSA, got {type(inner).__name__} without; "
            "add_gpsa(model) adds it"
        )
    return found
