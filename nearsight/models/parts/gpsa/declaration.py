"""Gated positional self-attention, declared as a part."""

from __future__ import annotations

from typing import Any

from torch import nn

from nearsight.models.parts.gpsa.convit import add_gpsa
from nearsight.models.parts.gpsa.gates import GateReadOut, positional_shares
from nearsight.models.parts.gpsa.gpsa import GPSA
from nearsight.models.parts.part import CostCounts, CostHook, CostText, HeadShare, Part, WeightOwner
from nearsight.protocol import gpsa_settings


class PatchAttentionCost(CostHook):
    """Distinguish attention between patches from GPSA's positional softmaxes.

    Attention has four dimensions; the softmaxes over positions have no batch.
    """

    def enter(self, counts: CostCounts) -> None:
        """Take only softmaxes of four dimensions for attention."""
        counts.attention_dims = 4

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """Take softmaxes of any number of dimensions for attention again."""
        counts.attention_dims = None


def title_in(model: nn.Module) -> str | None:
    """Return GPSA, or PSA if scores are added before the softmax; None without either."""
    layer = next((module for module in model.modules() if isinstance(module, GPSA)), None)
    return None if layer is None else "GPSA" if layer.mixing == "gated" else "PSA"


GPSA_PART = Part(
    name="gpsa",
    titles=("GPSA", "PSA"),
    choose=gpsa_settings,
    install=lambda model, settings: add_gpsa(model, settings=settings),
    attention_in=lambda settings: "GPSA",
    title_in=title_in,
    without={"gpsa": False},
    class_options=lambda choice: {"gpsa": choice},
    weights={".gating_param": WeightOwner("GPSA", "gpsa=")},
    num_prefix={GPSA: 0},
    costs={GPSA: PatchAttentionCost},
    cost_text=CostText(
        note="{title} is between patches: prefix tokens pass its layers at no cost."
    ),
    read_out=GateReadOut,
    head_share=HeadShare("gate", "gate (1: position)", positional_shares),
)
