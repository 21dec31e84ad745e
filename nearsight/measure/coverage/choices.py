"""Choose the models to try: a small one of every model file, with attention if one has any."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nearsight.models.compat import declare_missing_ops

# Variants with attention for files whose smallest model has none, and small variants whose names
# do not reveal their size.
TIMM_CHOICES = {
    "beit": ("beit_base_patch16_224",),
    "byoanet": ("botnet26t_256", "halonet26t", "lambda_resnet26t"),
    "byobnet": ("resnet51q", "resnet50_clip"),
    "cait": ("cait_xxs24_224",),
    "efficientformer": ("efficientformer_l1",),
    "efficientformer_v2": ("efficientformerv2_s0",),
    "efficientvit_msra": ("efficientvit_m0",),
    "fastvit": ("fastvit_sa12",),
    "hgnet": ("hgnetv2_b0",),
    "hieradet_sam2": ("sam2_hiera_tiny",),
    "levit": ("levit_128s",),
    "maxxvit": ("maxvit_rmlp_pico_rw_256", "coatnet_nano_rw_224"),
    "mobilenetv3": ("mobilenetv3_small_050", "mobilenetv4_hybrid_medium"),
    "mobilevit": ("mobilevit_xxs", "mobilevitv2_050"),
    "mvitv2": ("mvitv2_tiny",),
    "naflexvit": ("naflexvit_base_patch16_gap",),
    "nfnet": ("nfnet_f0",),
    "repvit": ("repvit_m0_9",),
    "resnet": ("resnet10t",),
    "swin_transformer": ("swin_tiny_patch4_window7_224",),
    "swin_transformer_v2": ("swinv2_tiny_window8_256",),
    "tnt": ("tnt_s_legacy_patch16_224",),
    "vision_transformer": ("vit_tiny_patch16_224",),
    "vision_transformer_hybrid": ("vit_tiny_r_s16_p8_224",),
    "vision_transformer_relpos": ("vit_relpos_small_patch16_224",),
    "vision_transformer_sam": ("samvit_base_patch16_224",),
    "xcit": ("xcit_nano_12_p16_224",),
    "vitamin": ("vitamin_small_224",),
}
SIZES = ("test", "femto", "atto", "pico", "nano", "mu", "xxs", "xxtiny", "xxt", "xs", "xtiny",
         "tiny", "mini", "small", "_ti", "_t", "_s", "s0", "b0", "_b")  # fmt: skip
TORCHVISION = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3",
    "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet18",
    "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11", "vit_b_16",
)  # fmt: skip
HF_TASKS = (
    "IMAGE", "IMAGE_CLASSIFICATION", "BACKBONE", "SEMANTIC_SEGMENTATION", "OBJECT_DETECTION",
    "DEPTH_ESTIMATION", "UNIVERSAL_SEGMENTATION", "MASK_GENERATION", "KEYPOINT_DETECTION",
    "IMAGE_TO_IMAGE", "ZERO_SHOT_IMAGE_CLASSIFICATION", "ZERO_SHOT_OBJECT_DETECTION",
)  # fmt: skip
HF_MORE = ("clip_vision_model", "siglip_vision_model", "sam_vision_model", "cvt", "vit_mae",
           "yolos", "vitdet", "detr", "dpt", "segformer", "ijepa", "timesformer")  # fmt: skip
# Not tried: wrappers of timm's models, and models of text and video (those that take images use one
# of the vision models listed here).
HF_LEFT_OUT = (
    "timm_wrapper", "timm_backbone", "perceiver", "levit_text", "llama4", "mllama",
    "cohere2_vision", "videomae", "vivit", "videoprism", "videoprism_vision_model", "videomt",
    "sam2_video", "sam3_video", "edgetam_video", "sam3_tracker",
)  # fmt: skip


def covered_models() -> list[str]:
    """Return the models to try, as ``timm/NAME``, ``torchvision/NAME`` and ``hf/MODEL_TYPE``."""
    return [*_timm(), *(f"torchvision/{name}" for name in TORCHVISION), *_hugging_face()]


def _timm() -> Iterator[str]:
    """Yield the models of timm."""
    declare_missing_ops()
    import timm

    for module in timm.list_modules():
        names = TIMM_CHOICES.get(module) or [min(timm.list_models(module=module), key=_size)]
        for name in names:
            yield f"timm/{name}"


def _size(name: str) -> tuple[int, int, str]:
    """Return a sort key by which names of small models come first, as far as names tell."""
    ranks = [rank for rank, word in enumerate(SIZES) if re.search(rf"{word}(?![a-z])", name)]
    return min(ranks, default=len(SIZES)), len(name), name


def _hugging_face() -> Iterator[str]:
    """Yield the vision models of Hugging Face."""
    try:
        from transformers.models.auto import modeling_auto
    except ImportError:
        return
    known = {
        name
        for task in HF_TASKS
        for name in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", ())
    }
    known |= {x for x in HF_MORE if x in modeling_auto.MODEL_MAPPING_NAMES}
    for name in sorted(known - {*HF_LEFT_OUT}):
        yield f"hf/{name}"
