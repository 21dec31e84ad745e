"""The published LocAt models: timm's ViT, RoPE ViT and Swin with LocAt from the start.

``locatvit_*`` (RegViT: ``reg_tokens=4``), ``locatvit_*_rope_mixed``, ``locatswin_*``; Jumbo is in
jumbo.py. Weight names are the authors', so that their weights load with ``strict=True``; the
classes save to and load from the Hugging Face hub. Where we differ: options of timm's classes are
passed on, ``gaussian`` and ``refine`` switch the parts off or take a variant.
"""

from __future__ import annotations

from typing import Any

from nearsight.models.compat import declare_missing_ops
from nearsight.models.zoo.published import WithLocat

declare_missing_ops()

from timm.models.eva import Eva  # noqa: E402
from timm.models.swin_transformer import SwinTransformer  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402

ROPE: dict[str, Any] = {
    "attn_type": "rope",
    "init_values": 1e-5,
    "global_pool": "token",
    "use_abs_pos_emb": False,
    "use_rot_pos_emb": True,
    "rope_type": "mixed",
    "rope_grid_indexing": "xy",
    "rope_temperature": 10.0,
}


class LocAtViT(WithLocat, VisionTransformer):
    """timm's ViT with LocAt."""


class LocAtRopeViT(WithLocat, Eva):
    """timm's ViT with mixed rotary positions and LocAt."""

    defaults = ROPE

    def __init__(self, *args: Any, reg_tokens: int = 0, **options: Any) -> None:
        super().__init__(*args, **{"num_reg_tokens": reg_tokens} | options)


class LocAtSwin(WithLocat, SwinTransformer):
    """timm's Swin with GAug inside each window and PRR over the last stage."""
