"""The models of the names in names.py, built as timm builds its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.compat import declare_missing_ops
from nearsight.models.zoo.convit_models import ConViT, DeiT, DistilledConViT, DistilledDeiT
from nearsight.models.zoo.jumbo import LocAtJumbo
from nearsight.models.zoo.locat_models import LocAtRopeViT, LocAtSwin, LocAtViT
from nearsight.models.zoo.names import ARCHITECTURES, TWINS
from nearsight.protocol import GaussianSettings, GpsaSettings

declare_missing_ops()

from timm.models import build_model_with_cfg, get_pretrained_cfg  # noqa: E402
from timm.models.vision_transformer import checkpoint_filter_fn  # noqa: E402

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

CLASSES: dict[str, type[nn.Module]] = {
    "vit": LocAtViT,
    "rope": LocAtRopeViT,
    "swin": LocAtSwin,
    "jumbo": LocAtJumbo,
    "convit": ConViT,
    "deit": DeiT,
}
DISTILLED: dict[str, type[nn.Module]] = {"convit": DistilledConViT, "deit": DistilledDeiT}

FEATURES: dict[str, dict[str, Any]] = {  # what features_only=True gives, as timm's own models do
    "vit": {"feature_cls": "getter", "out_indices": 3},
    "swin": {"flatten_sequential": True, "out_indices": (0, 1, 2, 3)},
}


def build_named(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    """The model of a name in ``ARCHITECTURES``, as timm builds its own.

    Where timm has the same model, its weights and its preparation of images are taken.
    """
    family, settings = ARCHITECTURES[name]
    twin = get_pretrained_cfg(TWINS[name]) if name in TWINS else None
    if pretrained and (twin is None or options.get("distilled")):
        raise UserError(
            f"{name} has no weights on a hub that nearsight knows; load a file with "
            "load_state_dict, or a repository with the class's from_pretrained"
        )
    facts = FACTS | ({"classifier": "head.fc"} if family == "swin" else {})
    for of_timm in ("pretrained_cfg", "cache_dir"):
        options.pop(of_timm, None)
    for part in ("gaussian", "gpsa"):  # plain, so that the hub can save it
        if isinstance(options.get(part), GaussianSettings | GpsaSettings):
            options[part] = asdict(options[part])
    features = dict(FEATURES["swin" if family == "swin" else "vit"])  # timm changes it
    if "out_indices" in options:
        features["out_indices"] = options.pop("out_indices")
    return build_model_with_cfg(
        _class(name, family, options.pop("distilled", False)),
        name,
        pretrained=pretrained,
        pretrained_cfg=facts if twin is None else twin.to_dict(),
        pretrained_filter_fn=checkpoint_filter_fn if twin else None,
        feature_cfg=features,
        **settings | options,
    )


def _class(name: str, family: str, distilled: bool) -> type[nn.Module]:
    if distilled and family not in DISTILLED:
        raise UserError(f"expected a ConViT or DeiT for distilled=True, got {name}")
    return DISTILLED[family] if distilled else CLASSES[family]
