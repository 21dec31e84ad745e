"""The published ConViT models, and DeiT as their baselines: timm's ViT with and without GPSA.

They are named ``convit_tiny``, ``_small`` and ``_base`` (heads of width 48), ``convit_tiny_plus``
and so on (heads of width 64), and ``deit_*`` for the baselines. Weight names are the published
ones, so that the published weights load with ``strict=True``. Where we differ: the models are
timm's ViT with ``add_gpsa``, so they take timm's options (registers, other image sizes, drop path),
and ``distilled=True`` adds a distillation token with its own head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.parts.gpsa import add_gpsa
from nearsight.models.zoo.published import Published, check_heads
from nearsight.protocol import GpsaSettings, gpsa_settings

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
    """timm's ViT with GPSA.

    Args:
        gpsa: Settings of GPSA; true for the published ones, false for none. timm's names for two of
            them, ``local_up_to_layer`` and ``locality_strength``, are also accepted.
        **options: Options of timm's ViT.
    """

    def __init__(self, gpsa: bool | dict[str, Any] = True, **options: Any) -> None:
        settings = _settings(gpsa, options)
        super().__init__(**AS_PUBLISHED | options)
        _start(self, settings)


class DistilledConViT(Published, VisionTransformerDistilled):
    """ConViT with a distillation token and its head; only patches have positions, as in ConViT."""

    def __init__(self, gpsa: bool | dict[str, Any] = True, **options: Any) -> None:
        settings = _settings(gpsa, options)
        super().__init__(**AS_PUBLISHED | options)
        if self.no_embed_class:
            patches = self.pos_embed[:, self.num_prefix_tokens :]  # type: ignore[index]
            self.pos_embed = nn.Parameter(patches.detach().clone())
        _start(self, settings)


def _settings(gpsa: bool | dict[str, Any], options: dict[str, Any]) -> GpsaSettings | None:
    """Return the settings of GPSA, and remove timm's names for them from the options."""
    check_heads(options.get("embed_dim"), options.get("num_heads"))
    words = {"layers": "local_up_to_layer", "strength": "locality_strength"}
    given = {key: options.pop(word) for key, word in words.items() if word in options}
    if given and not isinstance(gpsa, bool):
        raise UserError(f"gpsa= and {words[min(given)]}= exclude each other; give one of them")
    return gpsa_settings(given if given and gpsa else gpsa)


def _start(model: Any, settings: GpsaSettings | None) -> None:
    """Initialise a new model: the class token as in ConViT, and GPSA by its settings."""
    with torch.no_grad():
        if model.cls_token is not None:
            nn.init.trunc_normal_(model.cls_token, std=TOKEN_START)
    if settings is not None:
        add_gpsa(model, settings=settings)
