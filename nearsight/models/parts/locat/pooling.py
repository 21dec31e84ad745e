"""Replace the pooling of a backbone with PRR (refinement.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.parts.locat.backbones import is_windowed, windowed_layers
from nearsight.models.parts.locat.refinement import Refine, RefineMap
from nearsight.models.vit import VisionTransformer


@dataclass(frozen=True)
class Slot:
    """The pooling modules of a model, and what replaces them."""

    owner: nn.Module
    name: str
    modules: dict[str, nn.Module]  # new modules of the owner, by attribute
    notes: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # new settings of the owner, by attribute

    def fill(self) -> None:
        """Put the new modules and settings into the model."""
        for attribute, module in self.modules.items():
            setattr(self.owner, attribute, module.train(self.owner.training))
        for attribute, value in self.options.items():
            setattr(self.owner, attribute, value)
        if hasattr(self.owner, "pool_include_prefix"):
            self.owner.pool_include_prefix = True  # type: ignore[assignment]


def pooling_slot(model: Any) -> Slot:
    """Return where a backbone pools, and the PRR that can replace its pooling.

    Raises:
        UserError: If the head of the backbone reads something that PRR does not return.
    """
    if is_windowed(model):
        return _windowed_slot(model)
    if getattr(model, "head_dist", None) is not None:
        raise UserError(
            "PRR needs a single head, but this distilled model has two heads that read two tokens; "
            "set refine=False"
        )
    if getattr(model, "attn_pool", None) is not None:
        raise UserError(
            "PRR needs a model that pools by class token or average, but this one pools by "
            "attention; set refine=False"
        )
    if hasattr(model, "refine_modules"):  # Jumbo
        notes = ("the norm of the patches before PRR is new too",)
        return Slot(model, "attn_pool", model.refine_modules(), notes)
    heads = model.blocks[-1].attn.num_heads
    own = isinstance(model, VisionTransformer)
    pool = model.pool if own else model.global_pool
    num_prefix = model.num_prefix if own else model.num_prefix_tokens
    pooling = Refine(heads, pool, 0 if getattr(model, "pool_include_prefix", False) else num_prefix)
    normed_after = not isinstance(getattr(model, "fc_norm", nn.Identity()), nn.Identity)
    notes = ("PRR comes before the norm, which this model applies after pooling",)
    return Slot(model, "attn_pool", {"attn_pool": pooling}, notes if normed_after else ())


def _windowed_slot(model: Any) -> Slot:
    """Return the slot of a backbone with windows."""
    num_heads = windowed_layers(model)[-1].num_heads
    in_head = hasattr(model.head, "global_pool")
    if not in_head and isinstance(model.global_pool, str):
        # Twins pools tokens inside its forward, just before the dropout of the head.
        pooling = nn.Sequential(Refine(num_heads, model.global_pool), model.head_drop)
        return Slot(model, "head_drop", {"head_drop": pooling}, options={"global_pool": ""})
    owner = model.head if in_head else model
    of_map = RefineMap(
        num_heads,
        owner.global_pool.pool_type,
        channels_first=getattr(model, "output_fmt", "NCHW") == "NCHW",
        keep_map=not isinstance(getattr(model.head, "norm", nn.Identity()), nn.Identity),
    )
    name = "head.global_pool" if in_head else "global_pool"
    return Slot(owner, name, {"global_pool": of_map})
