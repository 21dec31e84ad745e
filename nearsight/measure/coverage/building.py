"""Build models with random weights for one image size after another, without downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from nearsight.models.compat import declare_missing_ops

SIDES = (96, 128, 224, 256)  # sides of the images, in the order they are tried
SMALL = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_queries": 20,  # some detectors choose their queries among the patches
}
SMALLER: tuple[dict[str, int], ...] = (
    SMALL,
    {"hidden_size": 128, "intermediate_size": 128},  # for models that list heads layer by layer
    {},
)
VIT = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
TILE = VIT | {"model_type": "dinov2", "image_size": 64, "patch_size": 8}
# Options of models whose default configuration cannot be built, or needs large images.
HF_OPTIONS: dict[str, dict[str, Any]] = {
    "depth_pro": {
        "patch_size": 64,
        "merge_padding_value": 0,
        "intermediate_hook_ids": [1, 0],
        "image_model_config": TILE,
        "patch_model_config": TILE,
        "fov_model_config": TILE,
    },
    "edgetam": {
        "vision_config": {
            "backbone_config": {
                "model_type": "timm_wrapper",
                "architecture": "repvit_m1",
                "num_classes": 2,
                "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
            }
        }
    },
    "lw_detr": {
        "projector_scale_factors": [1.0],
        "backbone_config": VIT
        | {
            "model_type": "lw_detr_vit",
            "image_size": 96,
            "window_block_indices": [0, 1],
            "out_indices": [2, 3],
            "num_windows": 4,
        },
    },
}
HF_CLASSES = (
    "AutoBackbone", "AutoModelForDepthEstimation", "AutoModelForSemanticSegmentation",
    "AutoModelForObjectDetection", "AutoModelForUniversalSegmentation",
    "AutoModelForKeypointDetection",
)  # fmt: skip
Build = tuple[int, "nn.Module | Exception"]  # side of the images; the model, or why there is none


def builds(name: str) -> Iterator[Build]:
    """Yield a model, named as in ``covered_models``, for one image size after another."""
    declare_missing_ops()
    library, _, rest = name.partition("/")
    builders = {"timm": _timm, "torchvision": _torchvision, "hf": _hugging_face}
    yield from builders[library](rest)


def _build_with(make: Callable[..., nn.Module], *options: dict[str, Any]) -> nn.Module | Exception:
    """Return the model with the first options that it accepts, or the last error."""
    error: Exception = ValueError("there are no options")
    for each in options:
        try:
            return make(**each)
        except Exception as now:
            error = now
    return error


def _timm(name: str) -> Iterator[Build]:
    """Build a model of timm."""
    import timm

    def make(**options: Any) -> nn.Module:
        return timm.create_model(name, **options)

    own = timm.get_pretrained_cfg(name)
    fixed = (own.input_size[-1],) if own else ()
    for side in dict.fromkeys((*SIDES, *fixed)):
        yield side, _build_with(make, {"img_size": side}, {})


def _torchvision(name: str) -> Iterator[Build]:
    """Build a model of torchvision."""
    from torchvision.models import get_model

    def make(**options: Any) -> nn.Module:
        return get_model(name, weights=None, **options)

    for side in (*SIDES, 299):
        options: dict[str, dict[str, Any]] = {
            "vit_b_16": {"image_size": side},
            "maxvit_t": {"input_size": (side, side)},
        }
        extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        yield side, _build_with(make, options.get(name, extra))


def _hugging_face(kind: str) -> Iterator[Build]:
    """Build a model of Hugging Face from its type."""
    for side in SIDES:
        for smaller in SMALLER:  # some models accept numbers that do not fit, and fail when run
            yield side, _build_with(lambda **given: _from_configuration(kind, **given),
                                    {"side": side, "smaller": smaller})  # fmt: skip


def _from_configuration(kind: str, side: int, smaller: dict[str, int]) -> nn.Module:
    """Build a type of model, or its vision part, from its default configuration.

    Args:
        kind: The type of model.
        side: Side of the images.
        smaller: Numbers that replace those of the configuration, if it has them.
    """
    import transformers
    from transformers import AutoConfig, AutoModel

    whole = AutoConfig.for_model(kind, **HF_OPTIONS.get(kind, {}))
    config = getattr(whole, "vision_config", None) or whole
    size = getattr(config, "image_size", None)
    if isinstance(size, int):
        config.image_size = side
    elif isinstance(size, (list, tuple)):
        config.image_size = [side, side]
    for key, value in smaller.items():
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, value)
    depths = getattr(getattr(config, "backbone_config", None), "depths", None)
    if smaller and isinstance(depths, (list, tuple)):
        config.backbone_config.depths = [min(depth, 2) for depth in depths]
    config.use_pretrained_backbone = False
    try:
        return AutoModel.from_config(config)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
    if config is not whole:
        return AutoModel.from_config(whole).vision_model
    for task in HF_CLASSES:
        auto = getattr(transformers, task)
        if type(config) in auto._model_mapping:
            return auto.from_config(config)
    raise ValueError(f"transformers has no class that builds {kind} for images")
