"""The published LocAt models: timm's ViT, RoPE ViT and Swin with LocAt from the start.

``locatvit_*`` (RegViT: ``reg_tokens=4``), ``locatvit_*_rope_mixed``, ``locatswin_*``; Jumbo is in
jumbo.py. Weight names are the authors', so that their weights load with ``strict=True``; the
classes save to and load from the Hugging Face hub. Where we differ: options of timm's classes are
passed on, ``gaussian`` and ``refine`` switch the parts off or take a variant.
"""

from __future__ import annotations

from typing import Any

from huggingface_hub import PyTorchModelHubMixin
from torch import nn

from nearsight.models.locat import add_locat
from nearsight.models.names import ARCHITECTURES, GaussianChoice, gaussian_settings
from nearsight.models.torchvision_ops import declare_missing_ops
from nearsight.models.variant import ChecksVariant

declare_missing_ops()

from timm.models import build_model_with_cfg  # noqa: E402
from timm.models.eva import Eva  # noqa: E402
from timm.models.swin_transformer import SwinTransformer  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402

HUB = {"library_name": "nearsight", "tags": ["vision-transformer", "locality"]}
ROPE = {
    "attn_type": "rope",
    "init_values": 1e-5,
    "global_pool": "token",
    "use_abs_pos_emb": False,
    "use_rot_pos_emb": True,
    "rope_type": "mixed",
    "rope_grid_indexing": "xy",
    "rope_temperature": 10.0,
}
FACTS = {  # how the images are prepared; the published recipe follows Swin's
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


def with_locat(model: nn.Module, gaussian: GaussianChoice, refine: bool) -> None:
    """Both parts at the published start, or whichever is wanted, or none."""
    if gaussian_settings(gaussian) is not None or refine:
        add_locat(model, gaussian, refine, published_start=True)


class LocAtViT(ChecksVariant, PyTorchModelHubMixin, VisionTransformer, **HUB):
    """timm's ViT with LocAt."""

    def __init__(
        self, gaussian: bool | dict[str, Any] = True, refine: bool = True, **options: Any
    ) -> None:
        super().__init__(**options)
        with_locat(self, gaussian, refine)


class LocAtRopeViT(ChecksVariant, PyTorchModelHubMixin, Eva, **HUB):
    """timm's ViT with mixed rotary positions and LocAt."""

    def __init__(
        self, gaussian: bool | dict[str, Any] = True, refine: bool = True, **options: Any
    ) -> None:
        super().__init__(**ROPE | options)
        with_locat(self, gaussian, refine)


class LocAtSwin(ChecksVariant, PyTorchModelHubMixin, SwinTransformer, **HUB):
    """timm's Swin with GAug inside each window and PRR over the last stage."""

    def __init__(
        self, gaussian: bool | dict[str, Any] = True, refine: bool = True, **options: Any
    ) -> None:
        super().__init__(**options)
        with_locat(self, gaussian, refine)


def build_named(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    """The model of a name in ``ARCHITECTURES``, as timm builds its own."""
    if pretrained:
        raise ValueError(
            f"{name} has no weights on a hub that nearsight knows; load a file with load_state_dict, "
            "or a repository with the class's from_pretrained"
        )
    family, settings = ARCHITECTURES[name]
    classes: dict[str, Any] = {"vit": LocAtViT, "rope": LocAtRopeViT, "swin": LocAtSwin}
    if family == "jumbo":
        from nearsight.models.jumbo import LocAtJumbo as model_class
    else:
        model_class = classes[family]
    facts = dict(FACTS)
    if family == "swin":
        facts |= {"first_conv": "patch_embed.proj", "classifier": "head.fc"}
    for unused in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        options.pop(unused, None)
    if not isinstance(options.get("gaussian", True), bool | dict):
        from dataclasses import asdict

        options["gaussian"] = asdict(options["gaussian"])
    return build_model_with_cfg(
        model_class, name, pretrained=False, pretrained_cfg=facts, **settings | options
    )
