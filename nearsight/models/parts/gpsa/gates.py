"""Read what GPSA has learned: the gate, attention centre and span of every head.

Figure 6 of ConViT (d'Ascoli et al. 2021) shows them. A head of GPSA weighs its positional attention
by the gate sigmoid(lambda), and the attention by content by the rest. The positional score of an
offset d = (down, right) is w . (right, down, |d|^2), where w is the head's row of ``pos_proj``. If
w[2] < 0, this equals -|d - centre|^2 / span up to a constant:

    span = -1 / w[2],   centre = (w[1], w[0]) * span / 2

Where we differ from the authors' log: a head with w[2] >= 0 has neither centre nor span. Its scores
grow with the distance, so the formula would give the place that it attends to least. Parameters are
read by name, so that timm's layer can be read as well as ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nearsight.models.parts.read_out import Placement, ReadOut, SeenCall


@dataclass(frozen=True)
class LayerGates:
    """Gate, centre and span of every head of a GPSA layer."""

    gate: tuple[float, ...] | None  # share of the positional attention; None: no gates (PSA)
    centre: tuple[tuple[float, float] | None, ...]  # (down, right) in patches
    span: tuple[float | None, ...]  # square patches; at sqrt(span) the weight has fallen to 1/e


def is_gpsa(module: nn.Module) -> bool:
    """Return whether a module is a GPSA layer, ours or timm's."""
    return all(hasattr(module, name) for name in ("gating_param", "pos_proj"))


def layer_gates(module: Any) -> LayerGates:
    """Return gate, centre and span of every head of a GPSA layer.

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


def gates_of(call: SeenCall) -> LayerGates | None:
    """Return the gates of the layer that makes this call, if it is GPSA."""
    for place in reversed(call.path):
        if is_gpsa(place.module):
            return layer_gates(place.module)
    return None


def positional_shares(call: SeenCall) -> tuple[float, ...] | None:
    """Return the gate of every head of the layer that makes this call, if it has gates."""
    gates = gates_of(call)
    return gates.gate if gates else None


class GateReadOut(ReadOut[LayerGates]):
    """Read the parameters of every GPSA layer once; they do not depend on images."""

    key = "gpsa"
    title = "GPSA"
    added_by = "add_gpsa(model)"
    while_training = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.modules = {name: x for name, x in model.named_modules() if is_gpsa(x)}

    @property
    def is_present(self) -> bool:
        """Whether the model has GPSA layers."""
        return bool(self.modules)

    def add(self, layer: int, call: SeenCall, layout: Placement) -> None:
        """Read the gates of a layer at its first attention call."""
        if layer not in self.layers and (gates := gates_of(call)):
            self.layers[layer] = gates

    @classmethod
    def contents(cls, layers: Mapping[int, LayerGates]) -> dict[str, Any]:
        """Return what measure.json records about all layers together."""
        return {"num_layers": len(layers)}
