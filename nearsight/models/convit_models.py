"""The published ConViT models and their baselines: timm's ViT and DeiT, with GPSA or without.

``convit_tiny``, ``_small``, ``_base`` (48 wide per head) and ``_plus`` (64 wide), ``deit_*`` beside
them. Weight names are the published ones, so that those weights load with ``strict=True``. Where we
differ: the models are timm's ViT with ``add_gpsa``, so that they take its options (registers, other
image sizes, drop path), and ``distilled=True`` adds a distillation token with a head of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nearsight.models.convit import add_gpsa
from nearsight.models.published import Published, check_heads
from nearsight.models.torchvision_ops import declare_missing_ops

declare_missing_ops()

from timm.models.deit import VisionTransformerDistilled  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402

AS_PUBLISHED = {"qkv_bias": False, "no_embed_class": True}  # options of timm's ViT
TOKEN_START = 0.02  # standard deviation of the class token; timm's ViT has almost 0


class DeiT(Published, VisionTransformer):
    """timm's ViT as DeiT has it."""

    def __init__(self, **options: Any) -> None:
        check_heads(options.get("embed_dim"), options.get("num_heads"))
        super().__init__(**options)


class DistilledDeiT(Published, VisionTransformerDistilled):
    """DeiT with a distillation token and its head."""

    def __init__(self, **options: Any) -> None:
        check_heads(options.get("embed_dim"), options.get("num_heads"))
        super().__init__(**options)


class ConViT(Published, VisionTransformer):
    """``gpsa``: its settings, true for the published ones or false for none."""

    def __init__(self, gpsa: bool | dict[str, Any] = True, **options: Any) -> None:
        check_heads(options.get("embed_dim"), options.get("num_heads"))
        super().__init__(**AS_PUBLISHED | options)
        _start(self, gpsa)


class DistilledConViT(Published, VisionTransformerDistilled):
    """ConViT with a distillation token and its head; positions are of patches only, as ever."""

    def __init__(self, gpsa: bool | dict[str, Any] = True, **options: Any) -> None:
        check_heads(options.get("embed_dim"), options.get("num_heads"))
        super().__init__(**AS_PUBLISHED | options)
        if self.no_embed_class:
            patches = self.pos_embed[:, self.num_prefix_tokens :]  # type: ignore[index]
            self.pos_embed = nn.Parameter(patches.detach().clone())
        _start(self, gpsa)


def _start(model: Any, gpsa: bool | dict[str, Any]) -> None:
    """A new model: the class token as ConViT starts it, GPSA as its settings say."""
    with torch.no_grad():
        nn.init.trunc_normal_(model.cls_token, std=TOKEN_START)
    if gpsa is not False:
        add_gpsa(model, settings=gpsa)
