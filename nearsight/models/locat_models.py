"""The published LocAt models: timm's ViT, RoPE ViT and Swin with LocAt from the start.

``locatvit_*`` (RegViT: ``reg_tokens=4``), ``locatvit_*_rope_mixed``, ``locatswin_*``; Jumbo is in
jumbo.py. Weight names are the authors', so that their weights load with ``strict=True``; the
classes save to and load from the Hugging Face hub. Where we differ: options of timm's classes are
passed on, ``gaussian`` and ``refine`` switch the parts off or take a variant.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import nn

from nearsight.models.jumbo import LocAtJumbo
from nearsight.models.names import ARCHITECTURES
from nearsight.models.published import Published
from nearsight.models.torchvision_ops import declare_missing_ops
from nearsight.protocol.schema import GaussianSettings

declare_missing_ops()

from timm.models import build_model_with_cfg  # noqa: E402
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
FACTS: dict[str, Any] = {  # how the images are prepared; the published recipe follows Swin's
    "num_classes": 1000,
    "input_size": (3, 224, 224),
    "crop_pct": 0.9,
    "interpolation": "bicubic",
    "fixed_input_size": True,
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "first_conv": "patch_embed.proj",
    "classifier": "head",
}


class LocAtViT(Published, VisionTransformer):
    """timm's ViT with LocAt."""


class LocAtRopeViT(Published, Eva):
    """timm's ViT with mixed rotary positions and LocAt."""

    defaults = ROPE

    def __init__(self, *args: Any, reg_tokens: int = 0, **options: Any) -> None:
        super().__init__(*args, **{"num_reg_tokens": reg_tokens} | options)


class LocAtSwin(Published, SwinTransformer):
    """timm's Swin with GAug inside each window and PRR over the last stage."""


CLASSES = {"vit": LocAtViT, "rope": LocAtRopeViT, "swin": LocAtSwin, "jumbo": LocAtJumbo}

FEATURES: dict[str, dict[str, Any]] = {  # what features_only=True gives, as timm's own models do
    "vit": {"feature_cls": "getter", "out_indices": 3},
    "swin": {"flatten_sequential": True, "out_indices": (0, 1, 2, 3)},
}


def build_named(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    """The model of a name in ``ARCHITECTURES``, as timm builds its own."""
    if pretrained:
        raise ValueError(
            f"{name} has no weights on a hub that nearsight knows; load a file with "
            "load_state_dict, or a repository with the class's from_pretrained"
        )
    family, settings = ARCHITECTURES[name]
    facts = FACTS | ({"classifier": "head.fc"} if family == "swin" else {})
    for of_timm in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        options.pop(of_timm, None)
    if isinstance(options.get("gaussian"), GaussianSettings):
        options["gaussian"] = asdict(options["gaussian"])  # plain, so that the hub can save it
    features = dict(FEATURES["swin" if family == "swin" else "vit"])  # timm changes it
    if "out_indices" in options:
        features["out_indices"] = options.pop("out_indices")
    return build_model_with_cfg(
        CLASSES[family],
        name,
        pretrained=False,
        pretrained_cfg=facts,
        feature_cfg=features,
        **settings | options,
    )
