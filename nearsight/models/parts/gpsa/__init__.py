"""Gated positional self-attention as a part that is added to a model (ConViT)."""

from __future__ import annotations

from nearsight.models.parts.gpsa.convit import add_gpsa
from nearsight.models.parts.gpsa.declaration import GPSA_PART
from nearsight.models.parts.gpsa.gates import GateReadOut, LayerGates, layer_gates
from nearsight.models.parts.gpsa.gpsa import GPSA

__all__ = ["GPSA", "GPSA_PART", "GateReadOut", "LayerGates", "add_gpsa", "layer_gates"]
