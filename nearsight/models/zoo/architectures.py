"""Build the models named in names.py, in the way timm builds its own."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.data.input import IMAGENET_MEAN, IMAGENET_STD
from nearsight.models.compat import declare_missing_ops
from nearsight.models.zoo.convit_models import ConViT, DeiT, DistilledConViT, DistilledDeiT
from nearsight.models.zoo.locat_models import LocAtJumbo, LocAtRopeViT, LocAtSwin, LocAtViT
from nearsight.models.zoo.names import ARCHITECTURES, TWINS

declare_missing_ops()

from timm.models import build_model_with_cfg, get_pretrained_cfg  # noqa: E402
from timm.models.vision_transformer import checkpoint_filter_fn  # noqa: E402

FACTS: dict[str, Any] = {  # timm's configuration of a model: its head and how images are prepared
    "num_classes": 1000,
    "input_size": (3, 224, 224),
    "crop_pct": 0.9,
    "interpolation": "bicubic",
    "fixed_input_size": True,
    "mean": IMAGENET_MEAN,
    "std": IMAGENET_STD,
    "first_conv": "patch_embed.proj",
    "classifier": "head",
}

HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}  # timm's normalisation for a plain ViT
OF_FAMILY: dict[str, dict[str, Any]] = {  # differences for which the published weights were trained
    "vit": HALF,
    "jumbo": HALF,
    "swin": {"classifier": "head.fc"},
}
HUB = {  # the authors' weights on the Hugging Face hub
    "locatvit_tiny": "sinahmr/locatvit_tiny",
    "locatvit_base": "sinahmr/locatvit_base",
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

FEATURES: dict[str, dict[str, Any]] = {  # what features_only=True returns, as for timm's models
    "vit": {"feature_cls": "getter", "out_indices": 3},
    "swin": {"flatten_sequential": True, "out_indices": (0, 1, 2, 3)},
}


def build_named(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    """Build a model named in ``ARCHITECTURES``, as timm builds its own.

    If timm has the same model, its weights and preprocessing are used.

    Args:
        name: The name.
        pretrained: Whether to load weights from a hub.
        options: Options of the model's class.

    Raises:
        UserError: If no hub has weights of this model, or it does not take an option.
    """
    family, settings = ARCHITECTURES[name]
    twin = get_pretrained_cfg(TWINS[name]) if name in TWINS else None
    if pretrained and not has_hub_weights(name, options.get("distilled", False)):
        raise UserError(
            f"nearsight knows no hub with weights of {name}; load a file with load_state_dict, or "
            "a repository with from_pretrained of the model's class"
        )
    facts = FACTS | OF_FAMILY.get(family, {})
    if name in HUB:
        facts["hf_hub_id"] = HUB[name]
    for of_timm in ("pretrained_cfg", "cache_dir"):
        options.pop(of_timm, None)
    for key, value in options.items():  # the hub can only save plain settings
        if is_dataclass(value) and not isinstance(value, type):
            options[key] = asdict(value)
    features = dict(FEATURES["swin" if family == "swin" else "vit"])  # a copy, as timm changes it
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


def has_hub_weights(name: str, distilled: bool = False) -> bool:
    """Return whether a hub has weights of a model: the authors', or timm's of the same model."""
    return name in HUB or (name in TWINS and not distilled)


def _class(name: str, family: str, distilled: bool) -> type[nn.Module]:
    """Return the class of a model."""
    if distilled and family not in DISTILLED:
        raise UserError(
            f"distilled=True is for ConViT and DeiT, but the model is {name}; leave it out"
        )
    return DISTILLED[family] if distilled else CLASSES[family]
